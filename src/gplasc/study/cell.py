"""Jobs of a sweep, their results, and the interface of whatever computes them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gplasc._io.display import Moment
from gplasc.results.record import Record
from gplasc.runs.spec import RunSpec

JobState = Literal["done", "already", "busy", "interrupted", "failed"]


@dataclass(frozen=True)
class Job:
    """One run to be computed in ``out/RUN_ID``, and its row and column in the overview."""

    resolved: RunSpec
    out: Path
    row: str
    column: str
    data_dir: Path | None = None
    device: str | None = None
    save_every: float = 60.0

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.resolved.config.run_id

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out / self.run_id

    @property
    def label(self) -> str:
        """The job in words."""
        where = f" on {self.column}" if self.column else ""
        return f"{self.row}{where}, seed {self.resolved.config.seed}"


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    state: "done" and "already" (complete before) with a record; "failed" with an error in one sentence;
    "interrupted": saved, to be continued; "busy": another process is computing the run.
    """

    job: Job
    state: JobState
    record: Record | None = None
    error: str | None = None
    seconds: float = 0.0


Listener = Callable[[Job, Moment], None]
"""Called with the progress of a running job, from any thread."""


class Executor(Protocol):
    """Where jobs are computed. This is all that a sweep needs, so that a cluster can replace the processes."""

    def submit(self, job: Job, listener: Listener) -> Future[JobResult]:
        """Queue a job; its future always ends with a result, whatever happens to the run."""

    def stop(self, *, now: bool = False) -> None:
        """Let running jobs save themselves and end, and start no others; ``now``: end them without saving."""

    def close(self) -> None:
        """Release everything; all futures have ended."""
