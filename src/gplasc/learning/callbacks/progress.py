"""Shows a run while it is computed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gplasc._io.display import Display, Moment
from gplasc._io.text import duration
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner

_WHERE = ("task", "epoch", "step", "lr")


class ProgressDisplay(Callback):
    """Reports to a display: the terms of the last step, speed, time left, and the accuracies after each task."""

    def __init__(self, display: Display, *, tasks: int, total_steps: int) -> None:
        self._display = display
        self._tasks = tasks
        self._total = total_steps
        self._start = time.monotonic()
        self._steps = 0

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show the last step."""
        self._steps += len(rows)
        spent = max(time.monotonic() - self._start, 1e-9)
        last = rows[-1]
        self._display.show(
            Moment(
                title=learner.config.title,
                task=last["task"],
                tasks=self._tasks,
                epoch=last["epoch"],
                epochs=learner.ctx.epochs,
                done=last["step"],
                total=self._total,
                images_per_second=self._steps * learner.config.train.batch / spent,
                seconds_left=(self._total - last["step"]) * spent / self._steps,
                terms={name: value for name, value in last.items() if name not in _WHERE},
                accuracies=tuple(map(fmean, learner.class_il)),
            )
        )

    def on_task_trained(self, learner: Learner) -> None:
        """Name what comes next."""
        self._display.phase("predictor")

    def on_task_end(self, learner: Learner) -> None:
        """Show the accuracies after the task."""
        self._display.say(
            f"{learner.config.title}: task {learner.position.task}/{self._tasks} learned, "
            f"class-IL {fmean(learner.class_il[-1]):.2f}, task-IL {fmean(learner.task_il[-1]):.2f} "
            f"({duration(sum(learner.evaluator.timings[-1].values()))})"
        )

    def on_progress(self, learner: Learner, phase: str, done: float) -> None:
        """Show the phase."""
        self._display.phase(f"{phase} {done:.0%}")
