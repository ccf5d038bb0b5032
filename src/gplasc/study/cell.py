"""A run with its place in a table, how it ended, and the interface of what computes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gplasc._io.display import Moment
from gplasc._io.text import duration
from gplasc.errors import UserError
from gplasc.results.record import Record
from gplasc.runs.spec import RunSpec
from gplasc.runs.workspace import Workspace
from gplasc.settings.presets import row_name

State = Literal["done", "already", "busy", "interrupted", "failed"]


def named_values(values: Mapping[str, object]) -> str:
    """Return names with their values for people."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


@dataclass(frozen=True)
class Cell:
    """One run to be computed, with its place in a table (never the seed) and the rows that it is compared with."""

    labels: Mapping[str, str | int | float]
    spec: RunSpec
    bases: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.spec.run_id

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.spec.config.seed

    @cached_property
    def row(self) -> str:
        """The row as tables and pictures call it: the label ``row``, else all labels."""
        row = str(self.labels.get("row") or named_values(self.labels) or self.spec.title)
        return row_name(row, self.spec.config.flat())

    @property
    def text(self) -> str:
        """The cell in words: its row, where it has one also stream and buffer, and the seed."""
        names = ("stream", "buffer") if "row" in self.labels else ()
        column = " ".join(str(self.labels[name]) for name in names if name in self.labels)
        return f"{self.row}{f' on {column}' if column else ''}, seed {self.seed}"


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that are negative or given twice."""
    for seed in seeds:
        if seed < 0:
            raise UserError(f"the seed {seed} is negative; seeds are whole numbers from 0")
        if seeds.count(seed) > 1:
            raise UserError(f"the seed {seed} is given twice; give every seed once")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    "done" and "already" (complete before) have a record, "failed" an error in one sentence; "interrupted": saved, to
    be continued; "busy": another process is computing the run.
    """

    cell: Cell
    state: State
    record: Record | None = None
    error: str = ""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The outcome in one line; empty for a run that was stopped before it began."""
        if self.state == "failed":
            return f"{self.cell.text}: failed: {self.error}"
        if self.state == "busy":
            return f"{self.cell.text}: another process is computing it; waiting for its result"
        if self.record is None:
            return f"{self.cell.text}: interrupted" if self.seconds else ""
        class_il, task_il = (self.record.metric(scenario=s) for s in ("class_il", "task_il"))
        return f"{self.cell.text}: class-IL {class_il:.2f}, task-IL {task_il:.2f} ({duration(self.seconds)})"


Listener = Callable[[Cell, Moment], None]
"""Called with the progress of a running cell, from any thread."""


class Executor:
    """Where cells are computed: processes of this machine, or a cluster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled: set[str] = set()
        self._stopping = False

    def _ending(self, cell: Cell) -> bool:
        return self._stopping or cell.run_id in self._cancelled

    @property
    def slots(self) -> int | None:
        """How many cells are computed at the same time; None: unknown."""
        return None

    def submit(self, cell: Cell, workspace: Workspace, listener: Listener) -> Future[Outcome]:
        """Queue a cell; its future always ends with an outcome, also if the run fails."""
        raise NotImplementedError

    def cancel(self, run_id: str) -> None:
        """Let one run save itself and end; its outcome is "interrupted", unless it was about to end anyway."""

    def stop(self, *, now: bool = False) -> None:
        """Let running cells save themselves and end, and start no others; ``now``: end them without saving."""

    def close(self) -> None:
        """Release everything; all futures have ended."""
