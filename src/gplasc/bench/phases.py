"""Processor time of the phases of a run."""

from __future__ import annotations

import time

from gplasc.learning import Callback, Learner


class PhaseClock(Callback):
    """Notes the processor time of each task's steps and of what follows them."""

    def __init__(self) -> None:
        self.training: list[float] = []
        self.rest: list[float] = []
        self._since = 0.0

    def on_task_begin(self, learner: Learner) -> None:
        """Begin with the training of a task."""
        self._since = time.process_time()

    def on_task_trained(self, learner: Learner) -> None:
        """Begin with predictor, memory and evaluation."""
        now = time.process_time()
        self.training.append(now - self._since)
        self._since = now

    def on_task_end(self, learner: Learner) -> None:
        """Note the time of the rest."""
        self.rest.append(time.process_time() - self._since)
