"""Ctrl-C and SIGTERM end a run after it was saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from gplasc.errors import Interrupted
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner


class StopSignals(Callback):
    """Saves and raises `Interrupted` after the step in which a signal arrived; outside training it only raises."""

    def __init__(self, save: Callable[[Learner], None]) -> None:
        self._save = save
        self._requested = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM inside the block; a second signal raises KeyboardInterrupt at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def request(number: int, frame: FrameType | None) -> None:
            if self._requested:
                raise KeyboardInterrupt
            self._requested = True

        before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_step_end(self, learner: Learner) -> None:
        """Save and stop if a signal has arrived."""
        if self._requested:
            self._save(learner)
            raise Interrupted

    def on_progress(self, learner: Learner, phase: str, done: float) -> None:
        """Stop if a signal has arrived."""
        self.stop_if_requested()

    def stop_if_requested(self) -> None:
        """Raise `Interrupted` if a signal has arrived."""
        if self._requested:
            raise Interrupted
