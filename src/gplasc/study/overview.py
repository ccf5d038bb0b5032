"""The progress of a sweep on standard error: plain lines, or on a terminal the grid and the running runs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from gplasc._io.display import Moment
from gplasc._io.text import duration
from gplasc.study.cell import Cell, Outcome

if TYPE_CHECKING:
    from rich.console import Console

_SIGNS = {  # of each state, with its style
    "waiting": ("·", "dim"),
    "busy": ("⋯", "dim"),
    "running": ("▶", "bold cyan"),
    "done": ("✓", "green"),
    "already": ("✓", "green dim"),
    "interrupted": ("‖", "yellow"),
    "failed": ("✗", "bold red"),
}
_MOST_ROWS = 30


class Overview:
    """A line for every run that ends, and from time to time one for those that run.

    All methods but `moment` are called from one thread.
    """

    def __init__(self, stream: IO[str] | None = None, every: float = 30.0) -> None:
        self._stream = stream or sys.stderr
        self._every = every
        self._last = self._start = time.monotonic()
        self._cells: Sequence[Cell] = ()
        self._states: dict[str, str] = {}
        self._moments: dict[str, tuple[Cell, Moment]] = {}

    def begin(self, cells: Sequence[Cell]) -> None:
        """Take the cells."""
        self._cells = cells
        self._states = {cell.run_id: "waiting" for cell in cells}

    def moment(self, cell: Cell, moment: Moment) -> None:
        """Keep the progress of a running cell for the next refresh; called from any thread."""
        self._moments[cell.run_id] = (cell, moment)
        self._states[cell.run_id] = "running"

    def ended(self, outcome: Outcome) -> None:
        """Take how a run ended."""
        waited = self._states.get(outcome.cell.run_id) == "busy"
        self._moments.pop(outcome.cell.run_id, None)
        self._states[outcome.cell.run_id] = outcome.state
        begun = outcome.state != "interrupted" or outcome.seconds > 0
        # A run that was complete at the start is not announced; one that was waited for is, once.
        if (
            begun
            and not (outcome.state == "already" and not waited)
            and not (outcome.state == "busy" and waited)
        ):
            self._announce(outcome)

    def _announce(self, outcome: Outcome) -> None:
        counts = Counter(self._states.values())
        ended = len(self._cells) - counts["waiting"] - counts["running"] - counts["busy"]
        self.say(f"[{ended}/{len(self._cells)}] {describe(outcome)}")

    def say(self, text: str) -> None:
        """Show a line that stays."""
        print(text, file=self._stream, flush=True)

    def refresh(self) -> None:
        """Show the progress of the running runs, if it was last shown long enough ago."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            for cell, moment in list(self._moments.values()):
                self.say(f"  {cell.text}: {moment}")

    def close(self) -> None:
        """Reset the terminal."""


class LiveOverview(Overview):
    """The grid with a sign for every seed, and a line for every running run."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._computed = 0

    def begin(self, cells: Sequence[Cell]) -> None:
        """Take the cells and start to draw."""
        super().begin(cells)
        self._live.start()

    def _announce(self, outcome: Outcome) -> None:
        self._computed += outcome.state == "done"
        if outcome.state == "failed":
            self.say(describe(outcome))

    def say(self, text: str) -> None:
        """Print a line above the grid."""
        self._console.print(text, highlight=False, markup=False)

    def refresh(self) -> None:
        """Draw again."""
        self._live.update(self.picture(), refresh=True)

    def close(self) -> None:
        """Remove the grid."""
        self._live.stop()

    def picture(self) -> Any:
        """Return what is drawn, for rich."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        columns = list(dict.fromkeys(cell.column for cell in self._cells))
        rows = list(dict.fromkeys(cell.row for cell in self._cells))
        parts: list[Any] = []
        if len(rows) <= _MOST_ROWS:
            signs = {(row, column): Text() for row in rows for column in columns}
            for cell in self._cells:
                signs[cell.row, cell.column].append(*_SIGNS[self._states[cell.run_id]])
            table = Table(box=None, pad_edge=False)
            for column in ("", *columns):
                table.add_column(Text(column), overflow="fold")
            for row in rows:
                table.add_row(Text(row), *(signs[row, column] for column in columns))
            parts.append(table)
        for cell, moment in list(self._moments.values()):
            share = moment.done / max(moment.total, 1)
            left = duration(moment.seconds_left)
            parts.append(
                Text(f"▶ {cell.text}: task {moment.task + 1}/{moment.tasks}, {share:.0%}, {left} left")
            )
        parts.append(Text(self._summary(), style="dim"))
        return Group(*parts)

    def _summary(self) -> str:
        counts = Counter(self._states.values())
        text = ", ".join(f"{counts[state]} {state}" for state in _SIGNS if counts[state])
        spent = time.monotonic() - self._start
        left = counts["waiting"] + counts["running"]
        guess = f", about {duration(spent / self._computed * left)} left" if self._computed and left else ""
        return f"{len(self._cells)} runs: {text}; {duration(spent)}{guess}"


def describe(outcome: Outcome) -> str:
    """Return in one line how a run ended."""
    label = outcome.cell.text
    if outcome.state == "failed":
        return f"{label}: failed: {outcome.error}"
    if outcome.state == "busy":
        return f"{label}: another process is computing it; waiting for its result"
    if outcome.record is None:
        return f"{label}: interrupted"
    accuracy = {s: outcome.record["metrics"][s]["final_accuracy"] for s in ("class_il", "task_il")}
    return (
        f"{label}: class-IL {accuracy['class_il']:.2f}, task-IL {accuracy['task_il']:.2f} "
        f"({duration(outcome.seconds)})"
    )


def print_failures(failed: Sequence[Outcome]) -> None:
    """List the runs that failed on standard error, those with the same error together."""
    by_error: dict[str, list[str]] = {}
    for outcome in failed:
        by_error.setdefault(outcome.error, []).append(outcome.cell.text)
    for error, labels in by_error.items():
        print(f"gplasc: {len(labels)} failed: {error}", file=sys.stderr)
        for label in labels:
            print(f"  {label}", file=sys.stderr)


def open_overview(quiet: bool = False) -> Overview | None:
    """Return the overview for standard error: live on a terminal, else plain lines; None shows nothing."""
    if quiet:
        return None
    return LiveOverview() if sys.stderr.isatty() else Overview()
