"""Compute many runs: each once, none that is complete, and none stopped by the failure of another."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from types import FrameType

from gplasc.errors import Interrupted, UserError
from gplasc.results.record import read_record
from gplasc.runs.workspace import Workspace
from gplasc.study.cell import Cell, Executor, Listener, Outcome
from gplasc.study.overview import Overview

_LOOK_EVERY = 0.25  # seconds between two looks at signals and progress
_RETRY_EVERY = 2.0  # seconds between two tries of a run that another process is computing


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells without those whose run an earlier one computes."""
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(cell.run_id, cell)
    return list(first.values())


def compute(
    cells: Sequence[Cell], workspace: Workspace, executor: Executor, overview: Overview | None = None
) -> dict[str, Outcome]:
    """Compute all cells; the executor is closed at the end.

    Complete runs are not computed again, runs that were cut off continue, and a run that another process computes
    is waited for after all others. Ctrl-C or SIGTERM lets running runs save themselves; a second one ends them at
    once.

    Args:
        cells: What is to be computed; cells with the same run are computed once.
        workspace: Where runs are stored, and data sets are read.
        executor: What computes them.
        overview: Shows the progress; None shows nothing.

    Returns:
        How each run ended, by run id.

    Raises:
        Interrupted: If a signal asked to stop.
    """
    cells = unique(cells)
    outcomes: dict[str, Outcome] = {}
    pending: set[Future[Outcome]] = set()
    busy: list[tuple[float, Cell]] = []  # when to try again

    listener: Listener = overview.moment if overview else lambda cell, moment: None

    def submit(cell: Cell) -> None:
        complete = _complete(cell, workspace)
        if complete is not None:
            finish(complete)
        else:
            pending.add(executor.submit(cell, workspace, listener))

    def finish(outcome: Outcome) -> None:
        if outcome.state == "busy":
            busy.append((time.monotonic() + _RETRY_EVERY, outcome.cell))
        else:
            outcomes[outcome.cell.run_id] = outcome
        if overview is not None:
            overview.ended(outcome)

    stops = _Stops()
    if overview is not None:
        overview.begin(cells)
    try:
        with stops.counted():
            for cell in cells:
                submit(cell)
            heeded = 0
            while pending or (busy and not stops.count):
                if pending:
                    done, _ = wait(pending, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
                    pending -= done
                    for future in done:
                        finish(future.result())
                else:
                    time.sleep(_LOOK_EVERY)
                if stops.count > heeded:
                    heeded = stops.count
                    executor.stop(now=heeded > 1)
                    if overview is not None and heeded == 1:
                        overview.say("stopping: running runs are saved first; once more to end them at once")
                elif busy and not stops.count and busy[0][0] <= time.monotonic():
                    submit(busy.pop(0)[1])
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


def _complete(cell: Cell, workspace: Workspace) -> Outcome | None:
    """Return the outcome of a run that needs no computing: complete already, or its record cannot be read."""
    try:
        record = read_record(workspace.out / cell.run_id)
    except UserError as error:
        return Outcome(cell, "failed", error=str(error))
    return None if record is None else Outcome(cell, "already", record)


class _Stops:
    """Counts the signals that ask to stop."""

    def __init__(self) -> None:
        self.count = 0

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    @contextmanager
    def counted(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
