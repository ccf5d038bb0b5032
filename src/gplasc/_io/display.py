"""Progress of one run, or of many, on standard error: live on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from gplasc._io.output import tolerant
from gplasc._io.text import duration, printable

if TYPE_CHECKING:
    from rich.console import Console

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
    def text(self) -> str:
        """The run in words."""


class Display:
    """Where progress is shown. This one shows nothing."""

    def begin(self, cells: Sequence[Shown], later: int = 0) -> None:
        """Take the runs that will be computed, if there are many, and how many will follow in later stages."""

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
        self._start, self._computed, self._later = time.monotonic(), 0, 0

    def begin(self, cells: Sequence[Shown], later: int = 0) -> None:
        """Take the runs."""
        self._cells = cells
        self._states = {cell.run_id: "waiting" for cell in cells}
        self._start, self._computed, self._later = time.monotonic(), 0, later

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
        self._computed += state == "done"
        if text and (state != "already" or before == "busy") and not (state == before == "busy"):
            self._announce(state, text)

    def _announce(self, state: str, text: str) -> None:
        left = self._left()
        self.say(f"[{len(self._cells) - left}/{len(self._cells)}] {text}{self._guess()}")

    def _left(self) -> int:
        return sum(state in ("waiting", "running", "busy") for state in self._states.values())

    def _guess(self) -> str:
        """Return the time left of all runs, those of later stages included, by that of the runs so far."""
        left, spent = self._left() + self._later, time.monotonic() - self._start
        return f", about {duration(spent / self._computed * left)} left" if self._computed and left else ""

    def say(self, text: str) -> None:
        """Write a line."""
        print(printable(text), file=self._stream, flush=True)


class Live(Lines):
    """A bar for each run that is computed; of many runs also one for all, with how many are in each state."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

        super().__init__()
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", style="dim", markup=False),
            console=console or Console(file=tolerant(sys.stderr)),
            transient=True,
        )

    def begin(self, cells: Sequence[Shown], later: int = 0) -> None:
        """Take the runs and start to draw."""
        super().begin(cells, later)
        self._summarize()

    def show(self, moment: Moment, cell: Shown | None = None) -> None:
        """Draw the moment from now on."""
        if cell and cell.run_id in self._states:
            self._states[cell.run_id] = "running"
        title, state = f"{cell.text if cell else moment.title} task {moment.task + 1}/{moment.tasks}", ""
        if not cell:
            terms = "".join(f" {name} {_rounded(value)}" for name, value in moment.terms.items())
            speed = f" {moment.images_per_second:.0f} img/s "
            state = f"epoch {moment.epoch + 1}/{moment.epochs}{terms}{speed}"
        state += f"{duration(moment.seconds_left)} left"
        self._draw(cell.run_id if cell else "", state, title, moment.done, max(moment.total, 1))

    def ended(self, cell: Shown, state: str, text: str) -> None:
        """Remove the bar of the run."""
        if cell.run_id in self._bars:
            self._progress.remove_task(self._bars.pop(cell.run_id))
        super().ended(cell, state, text)
        self._summarize()

    def _announce(self, state: str, text: str) -> None:
        if state == "failed":
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line above what is drawn."""
        self._progress.console.print(printable(text), highlight=False, markup=False)

    def phase(self, name: str) -> None:
        """Name the phase next to the bar."""
        self._draw("", f"{name} …")

    def close(self) -> None:
        """Remove what is drawn."""
        self._progress.stop()

    def _draw(
        self, bar: str, state: str, title: str = "", done: int | None = None, total: int | None = None
    ) -> None:
        """Draw a bar; what is not given stays as it is."""
        if bar not in self._bars:
            self._bars[bar] = self._progress.add_task(title, total=None, state=state)
        self._progress.update(
            self._bars[bar], description=title or None, completed=done, total=total, state=state
        )
        self._progress.start()

    def _summarize(self) -> None:
        counts = Counter(self._states.values())
        text = ", ".join(f"{number} {state}" for state, number in counts.items())
        text += f", {self._later} to follow" if self._later else ""
        spent = duration(time.monotonic() - self._start)
        ended = len(self._cells) - self._left()
        self._draw("all", f"{text}; {spent}{self._guess()}", "runs", ended, len(self._cells))


def display(quiet: bool = False) -> Display:
    """Return what fits where standard error goes."""
    if quiet:
        return Display()
    return Live() if tolerant(sys.stderr).isatty() else Lines()
