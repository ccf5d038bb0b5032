"""Resident memory of this process, and processor time of the phases of a run."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

from gplasc.learning import Callback, Learner


def resident_bytes() -> int:
    """Return the resident memory of this process; where the system does not tell, the peak so far."""
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB, macOS in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


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
