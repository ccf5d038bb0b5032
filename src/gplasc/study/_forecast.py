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

    Runs of kinds that have no record are measured with their number of threads, for at most ``budget`` seconds.
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
    costs = {  # of one run, by kind: seconds, and where they come from
        kind: (seconds, "as long as complete runs of the same kind")
        for kind, seconds in _recorded(workspace.out).items()
    }
    problems: dict[str, None] = {}
    end = time.monotonic() + budget
    for kind, (cell, *_) in kinds.items():
        if kind in costs or time.monotonic() >= end:
            continue
        try:
            with torch_threads(threads):
                cost, _ = measure_cost(cell.spec, data_dir=workspace.data_dir, device=workspace.device)
        except UserError as error:
            problems[f"could not be measured: {error}"] = None
        else:
            costs[kind] = (cost, "from a few measured steps")
    known = [costs[kind] for kind, same in kinds.items() if kind in costs for _ in same]
    if known:
        total = sum(seconds for seconds, _ in known)
        several = f", about {duration(total / workers)} with {workers} workers" if workers > 1 else ""
        lines.append(f"time for {len(known)} of the {len(left)} left: about {duration(total)}{several}")
        lines += [f"  {count} {source}" for source, count in Counter(source for _, source in known).items()]
    if len(known) < len(left):
        lines.append(f"time for the other {len(left) - len(known)}: unknown")
    return "\n".join([*lines, *problems])


def _kind(config: Config) -> _Kind:
    """Return what runs of about the same duration have in common."""
    train = config.train
    epochs = (train.epochs, train.first_epochs, train.batch, config.data.images_per_class)
    return (config.stream, config.scale, config.model, config.title, *epochs)


def _recorded(out: Path) -> dict[_Kind, float]:
    """Return the mean duration of the complete runs of each kind."""
    seconds: dict[_Kind, list[float]] = defaultdict(list)
    for record in load_records([out] if out.exists() else [])[0]:
        with suppress(ValidationError, KeyError):  # settings of another version
            seconds[_kind(Config(**record["settings"]))].append(record.seconds)
    return {kind: fmean(each) for kind, each in seconds.items()}
