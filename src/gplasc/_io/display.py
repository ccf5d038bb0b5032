"""What a person sees of a run: a live line on a terminal, plain lines in a log, always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Protocol

from gplasc._io.text import duration


@dataclass(frozen=True)
class Moment:
    """Where a run stands, for display."""

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


class Display(Protocol):
    """Somewhere to show a run."""

    def show(self, moment: Moment) -> None:
        """Show where training stands."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def phase(self, name: str) -> None:
        """Show what goes on outside training."""

    def close(self) -> None:
        """Put the terminal back."""


class Quiet:
    """Shows nothing."""

    def show(self, moment: Moment) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def phase(self, name: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """Plain lines, at most one every few seconds."""

    def __init__(self, stream: IO[str], every: float = 10.0) -> None:
        self._stream = stream
        self._every = every
        self._last = 0.0

    def show(self, moment: Moment) -> None:
        """Write a line if the last one is long enough ago."""
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self.say(str(moment))

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self._stream, flush=True)

    def phase(self, name: str) -> None:
        """Write nothing: phases are short."""

    def close(self) -> None:
        """Do nothing."""


class Live:
    """A bar for the whole run with the state of training beside it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._escape = escape
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.fields[title]}", style="bold", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            transient=True,
        )
        self._bar = self._progress.add_task("", title="", state="", total=None)
        self._progress.start()

    def show(self, moment: Moment) -> None:
        """Move the bar."""
        terms = " ".join(
            f"{self._escape(name)} [cyan]{_rounded(value)}[/]" for name, value in moment.terms.items()
        )
        self._progress.update(
            self._bar,
            completed=moment.done,
            total=moment.total,
            title=f"{moment.title} task {moment.task + 1}/{moment.tasks}",
            state=f"epoch {moment.epoch + 1}/{moment.epochs} {terms} [dim]{moment.images_per_second:.0f} img/s "
            f"{duration(moment.seconds_left)} left[/]",
        )

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(text, highlight=False, markup=False)

    def phase(self, name: str) -> None:
        """Name the phase beside the bar."""
        self._progress.update(self._bar, state=f"[dim]{self._escape(name)} …[/]")

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()


def display(quiet: bool = False) -> Display:
    """Return what fits where standard error goes."""
    if quiet:
        return Quiet()
    return Live() if sys.stderr.isatty() else Lines(sys.stderr)
