"""Compute many runs: each once, none that is complete, and none stopped by the failure of another."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from types import FrameType

from gplasc.errors import Interrupted, UserError
from gplasc.results.record import read_record
from gplasc.sweep.job import Executor, Job, Outcome
from gplasc.sweep.overview import Overview

_LOOK_EVERY = 0.25  # seconds between two looks at signals and progress


def unique(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs without those whose run another one computes too."""
    found: dict[str, Job] = {}
    for job in jobs:
        found.setdefault(job.run_id, job)
    return list(found.values())


def sweep(jobs: Sequence[Job], executor: Executor, overview: Overview | None = None) -> dict[str, Outcome]:
    """Compute all jobs and return how each run ended, by run id.

    Complete runs are not computed again, runs that were cut off continue. Ctrl-C or SIGTERM lets running runs save
    themselves and raises Interrupted; a second one ends them at once.
    """
    jobs = unique(jobs)
    if overview is not None:
        overview.begin(jobs)
    outcomes: dict[str, Outcome] = {}

    def ended(outcome: Outcome) -> None:
        outcomes[outcome.job.run_id] = outcome
        if overview is not None:
            overview.ended(outcome)

    stops = _Stops()
    try:
        with stops.heeded():
            pending: set[Future[Outcome]] = set()
            for job in jobs:
                there = _complete(job)
                if there is not None:
                    ended(there)
                else:
                    pending.add(
                        executor.submit(job, overview.moment if overview else lambda job, moment: None)
                    )
            heeded = 0
            while pending:
                done, pending = wait(pending, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
                for future in done:
                    ended(future.result())
                if stops.count > heeded:
                    heeded = stops.count
                    executor.stop(now=heeded > 1)
                    if overview is not None and heeded == 1:
                        overview.say("stopping: running runs are saved first; once more to end them at once")
                if overview is not None:
                    overview.refresh()
    finally:
        executor.stop()  # after an error nothing is left running
        executor.close()
        if overview is not None:
            overview.close()
    if stops.count:
        raise Interrupted
    return outcomes


def _complete(job: Job) -> Outcome | None:
    """Return the outcome of a run that needs no computing: complete already, or beyond reading."""
    try:
        record = read_record(job.folder)
    except UserError as error:
        return Outcome(job, "failed", error=str(error))
    return None if record is None else Outcome(job, "already", record)


class _Stops:
    """Counts the requests to stop."""

    def __init__(self) -> None:
        self.count = 0

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    @contextmanager
    def heeded(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
