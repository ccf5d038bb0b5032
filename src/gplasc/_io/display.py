"""Progress of one run, or of many, on standard error: live on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

from gplasc._io.output import tolerant
from gplasc._io.text import duration

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
_MOST_ROWS = 30  # of the grid of runs
_SECONDS = 10.0  # between two lines about a single run; one of many has a third of the lines


@dataclass(frozen=True)
class Moment:
    """Where a run stands."""

    title: str
    task: int
    tasks: int
    epoch: int
    epochs: int
    done: int
    total: int
    images_per_second: float
    seconds_left: float
    terms: Mapping[str, float]
    accuracies: tuple[float, ...] = ()
    """Class-incremental accuracy after each task that was learned, the mean over its tasks."""

    def __str__(self) -> str:
        terms = "  ".join(f"{name} {_rounded(value)}" for name, value in self.terms.items())
        return (
            f"{self.title}  task {self.task + 1}/{self.tasks}  epoch {self.epoch + 1}/{self.epochs}  {terms}  "
            f"{self.images_per_second:.0f} images/s  {duration(self.seconds_left)} left"
        )


def _rounded(value: float) -> str:
    """Return three decimals; zero has no sign.

    >>> _rounded(-0.0), _rounded(-1.23456)
    ('0.000', '-1.235')
    """
    return f"{round(value, 3) + 0.0:.3f}"


class Shown(Protocol):
    """One run among many, as it is shown."""

    @property
    def run_id(self) -> str:
        """The name of the run."""

    @property
    def row(self) -> str:
        """Its row in the grid of runs."""

    @property
    def column(self) -> str:
        """Its column in the grid of runs."""

    @property
    def text(self) -> str:
        """The run in words."""


class Display:
    """Where progress is shown. This one shows nothing."""

    def begin(self, cells: Sequence[Shown]) -> None:
        """Take the runs that will be computed, if there are many."""

    def show(self, moment: Moment, cell: Shown | None = None) -> None:
        """Show where training stands; the cell tells which of many runs it is."""

    def ended(self, cell: Shown, state: str, text: str) -> None:
        """Take the state in which one of many runs ended, and a line about it."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def phase(self, name: str) -> None:
        """Show what a single run does outside training."""

    def close(self) -> None:
        """Reset the terminal."""


class Lines(Display):
    """Plain lines, on standard error by default: one for every run that ends, now and then one for a running one."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or tolerant(sys.stderr)
        self._written: dict[str, float] = {}  # when there was a line about a run
        self._cells: Sequence[Shown] = ()
        self._states: dict[str, str] = {}

    def begin(self, cells: Sequence[Shown]) -> None:
        """Take the runs."""
        self._cells = cells
        self._states = {cell.run_id: "waiting" for cell in cells}

    def show(self, moment: Moment, cell: Shown | None = None) -> None:
        """Write a line if the last one is long enough ago."""
        now = time.monotonic()
        name, every = (cell.run_id, 3 * _SECONDS) if cell else ("", _SECONDS)
        if now - self._written.setdefault(name, now if cell else -every) >= every:
            self._written[name] = now
            self.say(f"  {cell.text}: {moment}" if cell else str(moment))

    def ended(self, cell: Shown, state: str, text: str) -> None:
        """Write the line, unless the run was complete at the start or is waited for already."""
        before = self._states.get(cell.run_id)
        if before is None:
            return
        self._states[cell.run_id] = state
        if text and (state != "already" or before == "busy") and not (state == before == "busy"):
            self._announce(state, text)

    def _announce(self, state: str, text: str) -> None:
        counts = Counter(self._states.values())
        left = counts["waiting"] + counts["running"] + counts["busy"]
        self.say(f"[{len(self._cells) - left}/{len(self._cells)}] {text}")

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self._stream, flush=True)


class Live(Lines):
    """A bar for a single run; for many a grid with a sign for every seed, and a line for every running run."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = console or Console(file=tolerant(sys.stderr))
        self._running: dict[str, tuple[Shown, Moment]] = {}
        self._single: Moment | None = None
        self._phase = ""
        self._start = time.monotonic()
        self._computed = 0
        self._live = Live(console=self._console, get_renderable=self.picture, transient=True)

    def begin(self, cells: Sequence[Shown]) -> None:
        """Take the runs and start to draw."""
        super().begin(cells)
        self._start, self._computed = time.monotonic(), 0
        self._live.start()

    def show(self, moment: Moment, cell: Shown | None = None) -> None:
        """Draw the moment from now on."""
        self._phase = ""
        if cell is None:
            self._single = moment
        else:
            self._running[cell.run_id] = (cell, moment)
            if cell.run_id in self._states:
                self._states[cell.run_id] = "running"
        self._live.start()

    def ended(self, cell: Shown, state: str, text: str) -> None:
        """Draw the sign of the state from now on."""
        self._running.pop(cell.run_id, None)
        super().ended(cell, state, text)

    def _announce(self, state: str, text: str) -> None:
        self._computed += state == "done"
        if state == "failed":
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line above what is drawn."""
        self._console.print(text, highlight=False, markup=False)

    def phase(self, name: str) -> None:
        """Name the phase next to the bar."""
        self._phase = name
        self._live.start()

    def close(self) -> None:
        """Remove what is drawn."""
        self._live.stop()

    def picture(self) -> Any:
        """Return what is drawn, for rich."""
        from rich.console import Group
        from rich.text import Text

        parts: list[Any] = [self._bar()] if self._single or self._phase else []
        rows = list(dict.fromkeys(cell.row for cell in self._cells))
        if 0 < len(rows) <= _MOST_ROWS:
            parts.append(self._grid(rows))
        for cell, moment in list(self._running.values()):
            share = moment.done / max(moment.total, 1)
            left = duration(moment.seconds_left)
            parts.append(
                Text(f"▶ {cell.text}: task {moment.task + 1}/{moment.tasks}, {share:.0%}, {left} left")
            )
        if self._cells:
            parts.append(Text(self._summary(), style="dim"))
        return Group(*parts)

    def _bar(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        moment = self._single
        title = f"{moment.title} task {moment.task + 1}/{moment.tasks}" if moment else ""
        done, total = (moment.done, moment.total) if moment else (0, None)
        state = Text(f"{self._phase} …", style="dim")
        if moment and not self._phase:
            state = Text(f"epoch {moment.epoch + 1}/{moment.epochs}")
            for name, value in moment.terms.items():
                state.append(f" {name} ").append(_rounded(value), style="cyan")
            speed = f" {moment.images_per_second:.0f} img/s {duration(moment.seconds_left)} left"
            state.append(speed, style="dim")
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_row(
            Text(title, style="bold"),
            ProgressBar(total, done, width=24),
            f"{done}/{total}" if moment else "",
            state,
        )
        return row

    def _grid(self, rows: Sequence[str]) -> Any:
        from rich.table import Table
        from rich.text import Text

        columns = list(dict.fromkeys(cell.column for cell in self._cells))
        signs = {(row, column): Text() for row in rows for column in columns}
        for cell in self._cells:
            signs[cell.row, cell.column].append(*_SIGNS[self._states[cell.run_id]])
        table = Table(box=None, pad_edge=False)
        for column in ("", *columns):
            table.add_column(Text(column), overflow="fold")
        for row in rows:
            table.add_row(Text(row), *(signs[row, column] for column in columns))
        return table

    def _summary(self) -> str:
        counts = Counter(self._states.values())
        text = ", ".join(f"{counts[state]} {state}" for state in _SIGNS if counts[state])
        spent = time.monotonic() - self._start
        left = counts["waiting"] + counts["running"]
        guess = f", about {duration(spent / self._computed * left)} left" if self._computed and left else ""
        return f"{len(self._cells)} runs: {text}; {duration(spent)}{guess}"


def display(quiet: bool = False) -> Display:
    """Return what fits where standard error goes."""
    if quiet:
        return Display()
    return Live() if tolerant(sys.stderr).isatty() else Lines()
