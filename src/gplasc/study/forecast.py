"""How long many runs will take: from records of similar runs, else from a few measured steps."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pydantic import ValidationError

from gplasc._io.text import duration
from gplasc.errors import UserError
from gplasc.results.record import RECORD, load_records
from gplasc.runs.cost import measure_cost, torch_threads
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Config
from gplasc.study.cell import Cell
from gplasc.study.compute import unique

_BUDGET = 4.0  # seconds after which no further kind of run is measured
_Kind = tuple[object, ...]


@dataclass(frozen=True)
class Forecast:
    """How many runs there are, in which state, and how long the rest takes one after the other.

    sources: how many of the remaining runs were estimated in which way.
    """

    total: int
    complete: int
    cut_off: int
    seconds: float
    sources: Counter[str]
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
    left = [cell for cell in cells if not (workspace.out / cell.run_id / RECORD).exists()]
    cut_off = sum(any((workspace.out / cell.run_id).glob("checkpoint-*.pt")) for cell in left)
    recorded = _recorded(workspace.out)
    measured: dict[_Kind, list[float]] = defaultdict(list)  # seconds of runs, by family
    problems: dict[str, None] = {}
    kinds: dict[_Kind, list[Cell]] = defaultdict(list)
    for cell in left:
        kinds[_kind(cell.spec.config)].append(cell)
    known: list[tuple[str, int, float]] = []  # how, for how many runs, seconds of each
    unmeasured: list[tuple[_Kind, int]] = []
    start = time.monotonic()
    for kind, same in kinds.items():
        if kind in recorded:
            known.append(("as long as complete runs of the same kind", len(same), recorded[kind]))
            continue
        seconds = None
        if time.monotonic() - start < budget:
            try:
                with torch_threads(threads):
                    spec, data_dir = same[0].spec, workspace.data_dir
                    seconds = measure_cost(spec, data_dir=data_dir, device=workspace.device).seconds
            except UserError as error:
                problems[f"could not be measured: {error}"] = None
        if seconds is None:
            unmeasured.append((kind, len(same)))
        else:
            measured[_family(kind)].append(seconds)
            known.append(("from a few measured steps", len(same), seconds))
    for kind, count in unmeasured:
        if similar := measured.get(_family(kind)):
            known.append(("as long as other methods measured on the same stream", count, fmean(similar)))
    sources: Counter[str] = Counter()
    for how, count, _ in known:
        sources[how] += count
    total = sum(count * seconds for _, count, seconds in known)
    return Forecast(len(cells), len(cells) - len(left), cut_off, total, sources, tuple(problems))


def _kind(config: Config) -> _Kind:
    """Return what runs of about the same duration have in common."""
    train = config.train
    epochs = (train.epochs, train.first_epochs, train.batch, config.data.images_per_class)
    return (config.stream, config.scale, config.model, config.title, *epochs)


def _family(kind: _Kind) -> _Kind:
    """Return what runs of several methods on one stream have in common."""
    return kind[:3]


def _recorded(out: Path) -> dict[_Kind, float]:
    """Return the mean duration of the complete runs of each kind."""
    seconds: dict[_Kind, list[float]] = defaultdict(list)
    for record in load_records([out])[0]:
        with suppress(ValidationError, KeyError):  # settings of another version
            seconds[_kind(Config(**record["settings"]))].append(record.seconds)
    return {kind: fmean(each) for kind, each in seconds.items()}
