"""What a person sees of a sweep: the grid and the running runs on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol

from gplasc.progress import Moment, duration
from gplasc.sweep.job import Job, Outcome

if TYPE_CHECKING:
    from rich.console import Console

_SIGNS = {
    "waiting": "·",
    "running": "▶",
    "done": "✓",
    "already": "✓",
    "interrupted": "‖",
    "failed": "✗",
}
_STYLES = {
    "running": "bold cyan",
    "done": "green",
    "already": "green dim",
    "interrupted": "yellow",
    "failed": "bold red",
}
_MOST_ROWS = 30


class Overview(Protocol):
    """Somewhere to show a sweep; all methods but `moment` are called from one thread."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Show the grid."""

    def moment(self, job: Job, moment: Moment) -> None:
        """Hear where a running job stands; called from any thread."""

    def ended(self, outcome: Outcome) -> None:
        """Hear how a job ended."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def refresh(self) -> None:
        """Show what has changed."""

    def close(self) -> None:
        """Put the terminal back."""


class Plain:
    """A line for every run that ends, and now and then one for those that run."""

    def __init__(self, stream: IO[str] | None = None, every: float = 30.0) -> None:
        self._stream = stream or sys.stderr
        self._every = every
        self._last = time.monotonic()
        self._total = 0
        self._ended = 0
        self._moments: dict[str, tuple[Job, Moment]] = {}

    def begin(self, jobs: Sequence[Job]) -> None:
        """Say how many runs there are."""
        self._total = len(jobs)

    def moment(self, job: Job, moment: Moment) -> None:
        """Keep it for the next line."""
        self._moments[job.run_id] = (job, moment)

    def ended(self, outcome: Outcome) -> None:
        """Write a line."""
        self._moments.pop(outcome.job.run_id, None)
        self._ended += 1
        begun = outcome.state != "interrupted" or outcome.seconds > 0
        if outcome.state != "already" and begun:
            self.say(f"[{self._ended}/{self._total}] {describe(outcome)}")

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self._stream, flush=True)

    def refresh(self) -> None:
        """Write where the running runs stand, if the last time is long enough ago."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            for job, moment in list(self._moments.values()):
                self.say(f"  {job.label}: {moment}")

    def close(self) -> None:
        """Do nothing."""


class Live:
    """The grid with a sign for every seed, and a line for every running run."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = console or Console(stderr=True)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._states: dict[str, str] = {}
        self._jobs: Sequence[Job] = ()
        self._moments: dict[str, tuple[Job, Moment]] = {}
        self._start = time.monotonic()
        self._computed = 0

    def begin(self, jobs: Sequence[Job]) -> None:
        """Draw the grid."""
        self._jobs = jobs
        self._states = {job.run_id: "waiting" for job in jobs}
        self._live.start()

    def moment(self, job: Job, moment: Moment) -> None:
        """Keep it for the next drawing."""
        self._moments[job.run_id] = (job, moment)
        self._states[job.run_id] = "running"

    def ended(self, outcome: Outcome) -> None:
        """Change the sign."""
        self._moments.pop(outcome.job.run_id, None)
        self._states[outcome.job.run_id] = outcome.state
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
        """Return what is drawn."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        columns = list(dict.fromkeys(job.column for job in self._jobs))
        rows = list(dict.fromkeys(job.row for job in self._jobs))
        parts: list[Any] = []
        if len(rows) <= _MOST_ROWS:
            table = Table(box=None, pad_edge=False)
            table.add_column("")
            for column in columns:
                table.add_column(column, overflow="fold")
            for row in rows:
                cells = []
                for column in columns:
                    signs = Text()
                    for job in self._jobs:
                        if (job.row, job.column) == (row, column):
                            state = self._states[job.run_id]
                            signs.append(_SIGNS[state], style=_STYLES.get(state, "dim"))
                    cells.append(signs)
                table.add_row(row, *cells)
            parts.append(table)
        for job, moment in list(self._moments.values()):
            share = moment.done / max(moment.total, 1)
            left = duration(moment.seconds_left)
            parts.append(
                Text(f"▶ {job.label}: task {moment.task + 1}/{moment.tasks}, {share:.0%}, {left} left")
            )
        parts.append(Text(self._summary(), style="dim"))
        return Group(*parts)

    def _summary(self) -> str:
        counts = Counter(self._states.values())
        text = ", ".join(f"{counts[state]} {state}" for state in _SIGNS if counts[state])
        spent = time.monotonic() - self._start
        left = counts["waiting"] + counts["running"]
        guess = f", about {duration(spent / self._computed * left)} left" if self._computed and left else ""
        return f"{len(self._jobs)} runs: {text}; {duration(spent)}{guess}"


def describe(outcome: Outcome) -> str:
    """Say in a line how a job ended."""
    label = outcome.job.label
    if outcome.state == "failed":
        return f"{label}: failed: {outcome.error}"
    if outcome.record is None:
        return f"{label}: interrupted"
    accuracy = {s: outcome.record["metrics"][s]["final_accuracy"] for s in ("class_il", "task_il")}
    return (
        f"{label}: class-IL {accuracy['class_il']:.2f}, task-IL {accuracy['task_il']:.2f} "
        f"({duration(outcome.seconds)})"
    )


def print_failures(failed: Sequence[Outcome]) -> None:
    """List the runs that failed, those with the same error together."""
    by_error: dict[str, list[str]] = {}
    for outcome in failed:
        by_error.setdefault(outcome.error or "", []).append(outcome.job.label)
    for error, labels in by_error.items():
        print(f"gplasc: {len(labels)} failed: {error}", file=sys.stderr)
        for label in labels:
            print(f"  {label}", file=sys.stderr)


def overview(quiet: bool = False) -> Overview | None:
    """Return what fits where standard error goes; None shows nothing."""
    if quiet:
        return None
    return Live() if sys.stderr.isatty() else Plain()
