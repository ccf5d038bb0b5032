"""The loss terms of every step as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc.errors import UserError
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner


class TermLog(Callback):
    """Appends a line for every step to ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def resume(self, step: int) -> int:
        """Drop the lines after ``step``, which a resumed run writes again, and a line that was cut off.

        Returns:
            How many of the steps up to ``step`` the log lacks: a line that is not one ends what is kept.

        Raises:
            UserError: If the log cannot be read or changed.
        """
        if not self._path.exists():
            return step
        if not self._path.is_file():
            raise UserError(f"{self._path} is not a regular file; delete it to continue")
        size = kept = 0
        try:
            with self._path.open("r+b") as file:
                for line in file:
                    if not line.endswith(b"\n") or _step_of(line) > step:
                        break
                    size += len(line)
                    kept += 1
                file.truncate(size)
        except OSError as error:
            raise UserError(
                f"{self._path} cannot be changed ({error.strerror}); delete it to continue"
            ) from None
        return max(step - kept, 0)

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        try:
            with self._path.open("ab") as file:
                file.write(text.encode())
        except OSError as error:
            raise UserError(
                f"cannot write {self._path}: {error.strerror}; make room and run the same command again to continue"
            ) from None


def _step_of(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return float("inf")
