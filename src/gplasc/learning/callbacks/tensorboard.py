"""Terms and accuracies for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gplasc.errors import UserError
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner


class TensorBoard(Callback):
    """Writes TensorBoard files into a folder (extra ``tensorboard``)."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "TensorBoard files need the extra 'tensorboard': pip install 'gplasc[tensorboard]'"
            ) from None
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
