"""What reads the terms of every step: a check for numbers that are not finite, a log, TensorBoard files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gplasc.errors import UserError
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner


class NotFinite(UserError):
    """A loss term is infinite or not a number."""


class FiniteCheck(Callback):
    """Raises `NotFinite`, naming the term and the step, before a checkpoint of the broken weights is written."""

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check every term of every row."""
        for row in rows:
            for name, value in row.items():
                if not math.isfinite(value):
                    raise NotFinite(
                        f"the term '{name}' is {value} at task {row['task'] + 1}, epoch {row['epoch'] + 1}, "
                        f"step {row['step']}; the last checkpoint is kept: lower the learning rate or the term's weight"
                    )


class TermLog(Callback):
    """Appends a JSON line for every step to ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def resume(self, step: int) -> int:
        """Drop the lines after ``step``, which a resumed run writes again; return how many up to there are missing."""
        if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
            raise UserError(f"{self._path} is not a regular file; delete it to continue")
        if not self._path.exists():
            return step
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
            raise UserError(f"{self._path} cannot be changed ({error.strerror}); delete it") from None
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


class TensorBoard(Callback):
    """Writes TensorBoard files into a folder (extra ``tensorboard``)."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("TensorBoard is not installed: pip install 'gplasc[tensorboard]'") from None
        self._writer = SummaryWriter(str(folder))

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the terms of the last step."""
        last = rows[-1]
        for name, value in last.items():
            if name not in ("task", "epoch", "step"):
                self._writer.add_scalar(f"terms/{name}", value, last["step"])

    def on_task_end(self, learner: Learner) -> None:
        """Write the mean accuracies."""
        step = learner.position.total_steps
        self._writer.add_scalar("accuracy/class_il", fmean(learner.class_il[-1]), step)
        self._writer.add_scalar("accuracy/task_il", fmean(learner.task_il[-1]), step)
        self._writer.flush()


def _step_of(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return float("inf")
