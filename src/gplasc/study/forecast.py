"""How long many runs will take: from records of similar runs, else from a few measured steps."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
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

_BUDGET = 4.0  # seconds after which no further kind of run is measured
_Kind = tuple[object, ...]


def forecast(
    cells: Sequence[Cell],
    workspace: Workspace,
    *,
    workers: int = 1,
    threads: int | None = None,
    budget: float = _BUDGET,
) -> str:
    """Return in sentences how many runs are left, and how long they take; a run that was cut off counts whole.

    The runs are measured with the threads of torch that they will have (default: those of this process), for at most
    ``budget`` seconds.
    """
    cells = list({cell.run_id: cell for cell in cells}.values())
    left = [cell for cell in cells if not (workspace.out / cell.run_id / RECORD).exists()]
    cut_off = sum(any((workspace.out / cell.run_id).glob("checkpoint-*.pt")) for cell in left)
    lines = [
        f"{len(cells)} runs, {len(cells) - len(left)} complete, {cut_off} cut off (they continue), "
        f"{len(left) - cut_off} to begin"
    ]
    kinds: dict[_Kind, list[Cell]] = defaultdict(list)
    for cell in left:
        kinds[_kind(cell.spec.config)].append(cell)
    seconds = _recorded(workspace.out)  # of one run, by kind
    how = dict.fromkeys(seconds, "as long as complete runs of the same kind")
    on_stream: dict[_Kind, list[float]] = defaultdict(list)
    problems: dict[str, None] = {}
    end = time.monotonic() + budget
    for kind, (cell, *_) in kinds.items():
        if kind in how or time.monotonic() >= end:
            continue
        try:
            with torch_threads(threads):
                cost, _ = measure_cost(cell.spec, data_dir=workspace.data_dir, device=workspace.device)
        except UserError as error:
            problems[f"could not be measured: {error}"] = None
        else:
            seconds[kind], how[kind] = cost, "from a few measured steps"
            on_stream[kind[:3]].append(cost)
    for kind in kinds:
        if kind not in how and on_stream[kind[:3]]:
            seconds[kind] = fmean(on_stream[kind[:3]])
            how[kind] = "as long as other methods measured on the same stream"
    sources = Counter(how[kind] for kind, same in kinds.items() if kind in how for _ in same)
    if known := sources.total():
        total = sum(seconds[kind] * len(same) for kind, same in kinds.items() if kind in how)
        several = f", about {duration(total / workers)} with {workers} workers" if workers > 1 else ""
        lines.append(f"time for {known} of the {len(left)} left: about {duration(total)}{several}")
        lines += [f"  {count} {source}" for source, count in sources.items()]
    if known < len(left):
        lines.append(f"time for the other {len(left) - known}: unknown")
    return "\n".join([*lines, *problems])


def _kind(config: Config) -> _Kind:
    """Return what runs of about the same duration have in common; the first three are what other methods share."""
    train = config.train
    epochs = (train.epochs, train.first_epochs, train.batch, config.data.images_per_class)
    return (config.stream, config.scale, config.model, config.title, *epochs)


def _recorded(out: Path) -> dict[_Kind, float]:
    """Return the mean duration of the complete runs of each kind."""
    seconds: dict[_Kind, list[float]] = defaultdict(list)
    for record in load_records([out])[0]:
        with suppress(ValidationError, KeyError):  # settings of another version
            seconds[_kind(Config(**record["settings"]))].append(record.seconds)
    return {kind: fmean(each) for kind, each in seconds.items()}
