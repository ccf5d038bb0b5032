"""Compute many runs: each once, none that is complete, and none stopped by the failure of another."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from gplasc._io.display import Display, Moment
from gplasc.errors import Interrupted, UserError
from gplasc.results.record import read_record
from gplasc.runs.workspace import Workspace
from gplasc.study.cell import Cell, Executor, Outcome

_LOOK_EVERY = 0.25  # seconds between two looks at signals and progress
_RETRY_EVERY = 2.0  # seconds between two tries of a run that another process is computing


def _unique(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells without those whose run an earlier one computes."""
    first = {cell.run_id: cell for cell in reversed(cells)}
    return [cell for cell in cells if first[cell.run_id] is cell]


def compute(
    cells: Iterable[Cell],
    workspace: Workspace,
    executor: Executor,
    display: Display | None = None,
    *,
    later: int = 0,
    on_moment: Callable[[Cell, Moment], None] = lambda cell, moment: None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> dict[str, Outcome]:
    """Compute all cells; return how each run ended, by run id. The executor is closed at the end.

    Complete runs are not computed again, runs that were cut off continue, and a run that another process computes
    is waited for after all others. Of cells in a sequence those with the same run are computed once; an iterator is
    asked for the next cell when the executor has a free slot, after ``on_outcome`` was called with what has ended.
    The time that is shown as left includes ``later``, the number of runs of later calls.
    Ctrl-C or SIGTERM lets running runs save themselves and ends with `Interrupted`; a second one ends them at once.
    """
    computation = _Computation(workspace, executor, display or Display(), on_moment, on_outcome)
    slots = None
    if isinstance(cells, Sequence):
        cells = _unique(cells)
        computation.display.begin(cells, later)
        for note in dict.fromkeys(note for cell in cells for note in cell.spec.notes):
            computation.display.say(note)
    else:
        slots = executor.slots
    try:
        with _stops_counted() as stops:
            computation.run(iter(cells), slots, stops)
    finally:
        executor.stop()  # after an error nothing is left running
        executor.close()
        computation.display.close()
    if stops:
        raise Interrupted
    return computation.outcomes


@dataclass
class _Computation:
    workspace: Workspace
    executor: Executor
    display: Display
    on_moment: Callable[[Cell, Moment], None]
    on_outcome: Callable[[Outcome], None]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    _pending: set[Future[Outcome]] = field(default_factory=set)
    _busy: list[tuple[float, Cell]] = field(default_factory=list)  # when to try again
    _moments: dict[str, tuple[Cell, Moment]] = field(default_factory=dict)  # the latest of each run

    def run(self, cells: Iterator[Cell], slots: int | None, stops: Sequence[int]) -> None:
        """Compute until nothing is left, or the computation was stopped."""
        heeded = 0
        while True:
            if not stops:
                self._submit_next(cells, slots, stops)
            if not self._pending and (stops or not self._busy):
                return
            self._wait()
            if len(stops) > heeded:
                heeded = len(stops)
                self.executor.stop(now=heeded > 1)
                if heeded == 1:
                    self.display.say("stopping: running runs are saved first; once more to end them at once")

    def _submit_next(self, cells: Iterator[Cell], slots: int | None, stops: Sequence[int]) -> None:
        """Fill the free slots, and try again what another process was computing."""
        if self._busy and self._busy[0][0] <= time.monotonic():
            self._submit(self._busy.pop(0)[1])
        while not stops and (slots is None or len(self._pending) + len(self._busy) < slots):
            if (cell := next(cells, None)) is None:
                return
            self._submit(cell)

    def _submit(self, cell: Cell) -> None:
        try:
            record = read_record(self.workspace.out / cell.run_id)
        except UserError as error:
            self._finish(Outcome(cell, "failed", error=str(error)))
            return
        if record is not None:
            self._finish(Outcome(cell, "already", record))
        else:
            self._pending.add(self.executor.submit(cell, self.workspace, self._listen))

    def _listen(self, cell: Cell, moment: Moment) -> None:  # from any thread
        self._moments[cell.run_id] = (cell, moment)

    def _wait(self) -> None:
        """Wait for a moment and pass on what has come."""
        done: set[Future[Outcome]] = set()
        if self._pending:
            done, self._pending = wait(self._pending, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
        else:
            time.sleep(_LOOK_EVERY)
        for run_id in list(self._moments):
            cell, moment = self._moments.pop(run_id)
            self.display.show(moment, cell)
            self.on_moment(cell, moment)
        for future in done:
            self._finish(future.result())

    def _finish(self, outcome: Outcome) -> None:
        self.display.ended(outcome.cell, outcome.state, outcome.text)
        if outcome.state == "busy":
            self._busy.append((time.monotonic() + _RETRY_EVERY, outcome.cell))
        else:
            self.outcomes[outcome.cell.run_id] = outcome
            self.on_outcome(outcome)


@contextmanager
def _stops_counted() -> Iterator[list[int]]:
    """Collect the signals that ask to stop; only the main thread can."""
    stops: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()

    def ask(number: int, frame: object) -> None:
        stops.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield stops
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def print_failures(failed: Sequence[Outcome]) -> None:
    """List the runs that failed on standard error, those with the same error together."""
    by_error: dict[str, list[str]] = {}
    for outcome in failed:
        by_error.setdefault(outcome.error, []).append(outcome.cell.text)
    for error, texts in by_error.items():
        print(f"gplasc: {len(texts)} failed: {error}", file=sys.stderr)
        for text in texts:
            print(f"  {text}", file=sys.stderr)
