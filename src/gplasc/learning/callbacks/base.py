"""The hooks of a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner


class Callback:
    """Override the hooks you need; a learner calls its callbacks in the order in which they were given.

    Useful attributes: ``learner.position`` (task, epoch, step, total_steps), ``learner.config``, ``learner.class_il``
    and ``learner.task_il`` (rows of the accuracy matrices), ``learner.ctx`` (network, memory, task). A callback may
    read all of it and must change nothing. An exception that a hook raises ends the run; its checkpoint stays.

    >>> class PrintAccuracy(Callback):
    ...     def on_task_end(self, learner):
    ...         print(learner.position.task, learner.class_il[-1])
    """

    def on_task_begin(self, learner: Learner) -> None:
        """Called before the first step of ``learner.ctx.task``; not again when a run resumes inside the task."""

    def on_step_end(self, learner: Learner) -> None:
        """Called after every optimizer step. Reading a tensor's value here synchronizes the device; see `on_log`."""

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Called every few steps with one row for each step since the last call.

        A row has ``task``, ``epoch``, ``step``, ``lr`` and every loss term by name, as numbers.
        """

    def on_task_trained(self, learner: Learner) -> None:
        """Called after the last step of a task, before predictor, memory and evaluation."""

    def on_task_end(self, learner: Learner) -> None:
        """Called when a task is complete: its rows of the accuracy matrices are there."""

    def on_progress(self, learner: Learner, phase: str, done: float) -> None:
        """Called between pieces of a ``phase`` outside training, such as ``"probe"``; ``done`` is from 0 to 1."""
