"""Saves a learner now and then, so that a run that is cut off continues."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.errors import UserError
from gplasc.learning import checkpoints
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner

_SHARE = 0.005  # of the time, at most, is spent on checkpoints around the ends of tasks after the first one


class Checkpoint(Callback):
    """Writes checkpoints into a folder: every so many seconds (or steps), and around the end of each task.

    Tasks may be so short that checkpoints around their ends would take longer than the tasks. A checkpoint is left out
    if, in the time since the last one, two hundred could not have been written. With `every_steps` none is left out.
    `identity` says what the run is made of; it is stored with the state and compared when the run resumes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        every: float = 60.0,
        every_steps: int | None = None,
        identity: dict[str, str] | None = None,
        on_saved: Callable[[Path], None] = lambda path: None,
    ) -> None:
        if not every >= 0 or (every_steps is not None and every_steps < 1):
            raise UserError(
                f"checkpoints every {every} seconds or {every_steps} steps: give 0 seconds, 1 step or more"
            )
        self._folder = folder
        self._every = every
        self._every_steps = every_steps
        self._identity = identity or {}
        self._on_saved = on_saved
        self._saved_at = time.monotonic()
        self._cost = 0.0  # seconds of the last one

    def on_step_end(self, learner: Learner) -> None:
        """Save when it is time."""
        steps = self._every_steps
        if self._waited(self._every) or (steps and learner.position.total_steps % steps == 0):
            self.save(learner)

    def on_task_trained(self, learner: Learner) -> None:
        """Save before predictor, memory and evaluation, which are computed again if they are cut off."""
        self._save_around_task(learner)

    def on_task_end(self, learner: Learner) -> None:
        """Save the complete task."""
        self._save_around_task(learner)

    def save(self, learner: Learner) -> None:
        """Write a checkpoint, after the terms up to here have been logged and checked."""
        start = time.monotonic()
        learner.log_terms()
        position = learner.position
        number = 2 * position.total_steps + position.task  # grows with every kind of progress
        state = {"learner": learner.state_dict(), "identity": self._identity}
        self._on_saved(checkpoints.save(self._folder, number, state))
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - start

    def _save_around_task(self, learner: Learner) -> None:
        if self._every_steps or self._waited(min(self._every, self._cost / _SHARE)):
            self.save(learner)

    def _waited(self, seconds: float) -> bool:
        return time.monotonic() - self._saved_at >= seconds
