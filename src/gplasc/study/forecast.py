"""How long a sweep will take: from records of similar runs, else from a few measured steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gplasc._io.text import duration
from gplasc.errors import UserError
from gplasc.results.record import load_records
from gplasc.runs.cost import measure_cost, torch_threads
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Config
from gplasc.study.cell import Cell
from gplasc.study.compute import unique

_BUDGET = 4.0  # seconds after which no further kind of run is measured


@dataclass(frozen=True)
class Forecast:
    """How many runs there are, in which state, and how long the rest takes one after the other."""

    total: int
    complete: int
    cut_off: int
    seconds: float
    sources: Counter[str]
    """How many of the remaining runs were estimated in which way."""
    problems: tuple[str, ...]

    @property
    def remaining(self) -> int:
        """Runs that are not complete."""
        return self.total - self.complete

    def text(self, workers: int) -> str:
        """Return the forecast in sentences, the time also for so many workers."""
        lines = [
            f"{self.total} runs, {self.complete} complete, {self.cut_off} cut off (they continue), "
            f"{self.remaining - self.cut_off} to begin"
        ]
        known = sum(self.sources.values())
        if known:
            several = (
                f", about {duration(self.seconds / workers)} with {workers} workers" if workers > 1 else ""
            )
            lines.append(
                f"time for {known} of the {self.remaining} left: about {duration(self.seconds)}{several}"
            )
            lines += [f"  {count} {source}" for source, count in self.sources.items()]
        if known < self.remaining:
            lines.append(f"time for the other {self.remaining - known}: unknown")
        return "\n".join([*lines, *self.problems])


def forecast(
    cells: Sequence[Cell], workspace: Workspace, *, threads: int | None = None, budget: float = _BUDGET
) -> Forecast:
    """Estimate what is left of the cells; a run that was cut off counts whole.

    Args:
        cells: The runs.
        workspace: Where they are stored, and data sets are read.
        threads: Threads of torch that each run will have; default: those of this process.
        budget: Seconds after which no further kind of run is measured.
    """
    cells = unique(cells)
    complete = {c.run_id for c in cells if (workspace.out / c.run_id / "record.json").exists()}
    left = [cell for cell in cells if cell.run_id not in complete]
    cut_off = sum(any((workspace.out / cell.run_id).glob("checkpoint-*.pt")) for cell in left)
    known = _from_records([workspace.out] if workspace.out.exists() else [])
    seconds = 0.0
    sources: Counter[str] = Counter()
    problems: list[str] = []
    measured: dict[tuple[object, ...], list[float]] = {}
    unmeasured: list[Cell] = []
    start = time.monotonic()
    for kind, same in _by_kind(left).items():
        if kind in known:
            seconds += known[kind] * len(same)
            sources["as long as complete runs of the same kind"] += len(same)
        elif time.monotonic() - start < budget:
            try:
                with torch_threads(threads):
                    cost = measure_cost(same[0].spec, data_dir=workspace.data_dir, device=workspace.device)
            except UserError as error:
                problems.append(str(error))
                unmeasured += same
                continue
            seconds += cost.seconds * len(same)
            measured.setdefault(_family(same[0].spec.config), []).append(cost.seconds)
            sources["from a few measured steps"] += len(same)
        else:
            unmeasured += same
    for cell in unmeasured:
        similar = measured.get(_family(cell.spec.config))
        if similar:
            seconds += sum(similar) / len(similar)
            sources["as long as other methods measured on the same stream"] += 1
    said = tuple(f"could not be measured: {problem}" for problem in dict.fromkeys(problems))
    return Forecast(len(cells), len(complete), cut_off, seconds, sources, said)


def _kind(config: Config) -> tuple[object, ...]:
    """What runs of about the same duration have in common."""
    return (
        config.stream,
        config.title,
        config.scale,
        config.model,
        config.train.epochs,
        config.train.first_epochs,
        config.train.batch,
        config.data.images_per_class,
    )


def _family(config: Config) -> tuple[object, ...]:
    return (config.stream, config.scale, config.model)


def _by_kind(cells: Iterable[Cell]) -> dict[tuple[object, ...], list[Cell]]:
    kinds: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(_kind(cell.spec.config), []).append(cell)
    return kinds


def _from_records(folders: Iterable[Path]) -> dict[tuple[object, ...], float]:
    found: dict[tuple[object, ...], list[float]] = {}
    for record in load_records(folders)[0]:
        with suppress(ValidationError, KeyError):  # settings of another version
            found.setdefault(_kind(Config(**record["settings"])), []).append(record["seconds"])
    return {kind: sum(seconds) / len(seconds) for kind, seconds in found.items()}
