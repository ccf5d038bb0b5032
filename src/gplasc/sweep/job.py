"""What a sweep is made of: jobs, their outcomes, and whoever computes them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from gplasc.progress import Moment
from gplasc.resolve import Resolved

State = Literal["done", "already", "interrupted", "failed"]


@dataclass(frozen=True)
class Job:
    """One run to be computed in ``out/RUN_ID``, and where it stands in the grid that people see."""

    resolved: Resolved
    out: Path
    row: str
    column: str
    data_dir: Path | None = None
    device: str | None = None
    save_every: float = 60.0

    @property
    def run_id(self) -> str:
        """The hash of the settings."""
        return self.resolved.config.run_id

    @property
    def folder(self) -> Path:
        """Where the run is."""
        return self.out / self.run_id

    @property
    def label(self) -> str:
        """The job in words."""
        where = f" on {self.column}" if self.column else ""
        return f"{self.row}{where}, seed {self.resolved.config.seed}"


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a record, or with an error in one sentence, or saved and cut off."""

    job: Job
    state: State
    record: dict[str, Any] | None = None
    error: str | None = None
    seconds: float = 0.0


Listener = Callable[[Job, Moment], None]
"""Told where a running job stands; called from any thread."""


class Executor(Protocol):
    """Where jobs are computed. This is all that a sweep asks for, so a cluster can take the place of the processes."""

    def submit(self, job: Job, listener: Listener) -> Future[Outcome]:
        """Take a job; its future always ends with an outcome, whatever happens to the run."""

    def stop(self, *, now: bool = False) -> None:
        """Let running jobs save themselves and end, and begin no others; ``now``: end them without saving."""

    def close(self) -> None:
        """Give everything back; all futures have ended."""
