"""The folder of a run: who may write to it, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.files import write_atomic
from gplasc.lock import Held, locked

RECORD = "record.json"
TERMS = "terms.jsonl"
WEIGHTS = "weights.safetensors"


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a complete run, or None."""
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / RECORD} cannot be read ({error}); delete it to run again") from None
    return record


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record of a complete run."""
    write_atomic(folder / RECORD, json.dumps(record, indent=1) + "\n")


class Busy(UserError):
    """Another process is working on the run."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run's folder; a second process is refused, a killed one leaves nothing behind."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / "lock", wait=False))
        except Held:
            raise Busy(
                f"another process is working on the run in {folder}; wait for it, or stop it before you continue"
            ) from None
        except OSError as error:
            raise UserError(
                f"the folder {folder} cannot be written ({error.strerror}); choose another with --out"
            ) from None
        yield


class TermLog:
    """The loss terms as JSON lines. A resumed run cuts off what was written after its checkpoint."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = 0
        """Bytes that belong to the run so far."""

    def resume(self, size: int) -> None:
        """Go on after ``size`` bytes."""
        if size > 0 or self._path.exists():
            with self._path.open("ab") as file:
                file.truncate(size)
        self.size = size

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Append rows."""
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        try:
            with self._path.open("ab") as file:
                file.write(text)
        except OSError as error:
            raise UserError(
                f"cannot write {self._path}: {error.strerror}; make room and run the same command again to continue"
            ) from None
        self.size += len(text)
