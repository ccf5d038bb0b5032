"""`gplasc sweep`: a grid over settings and seeds, ending in a table."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gplasc.files import write_atomic
from gplasc.results.aggregate import spread
from gplasc.sweep.forecast import forecast
from gplasc.sweep.grid import Point, expand, parse_axes, text
from gplasc.sweep.job import Executor, Job, Outcome
from gplasc.sweep.overview import Overview, print_failures
from gplasc.sweep.processes import Processes
from gplasc.sweep.sweep import sweep

SCENARIOS = {"class_il": "class-IL", "task_il": "task-IL"}
METRICS = ("final_accuracy", "forgetting")


def run_sweep(
    words: Sequence[str],
    seeds: Sequence[int],
    arguments: Mapping[str, Any],
    *,
    out: Path,
    data_dir: Path | None = None,
    device: str | None = None,
    workers: int = 1,
    threads: int | None = None,
    dry_run: bool = False,
    overview: Overview | None = None,
    executor: Executor | None = None,
) -> int:
    """Compute the grid, print its table and write it into ``out/sweep-HASH``; return 0, or 1 if a run failed."""
    axes = parse_axes(words)
    given = dict(arguments)
    own_seed = given.pop("seed")
    points = expand(axes, seeds or (own_seed,), **given)
    jobs = [
        Job(resolved, out, row=point.label, column="", data_dir=data_dir, device=device)
        for point in points
        for resolved in point.seeds
    ]
    if dry_run:
        print(forecast(jobs).text(workers))
        return 0
    outcomes = sweep(jobs, executor or Processes(workers, threads), overview)
    _print_table(points, axes, outcomes)
    name = hashlib.sha256(" ".join(sorted(outcomes)).encode()).hexdigest()[:8]
    print(f"written: {write_atomic(out / f'sweep-{name}' / 'table.csv', _csv(points, axes, outcomes))}")
    failed = [outcome for outcome in outcomes.values() if outcome.state == "failed"]
    print_failures(failed)
    return 1 if failed else 0


def _values(point: Point, outcomes: Mapping[str, Outcome], scenario: str, metric: str) -> list[float]:
    records = [outcomes[resolved.config.run_id].record for resolved in point.seeds]
    return [float(record["metrics"][scenario][metric]) for record in records if record is not None]


def _print_table(
    points: Sequence[Point], axes: Mapping[str, Sequence[Any]], outcomes: Mapping[str, Outcome]
) -> None:
    from rich.console import Console
    from rich.table import Table

    config = points[0].seeds[0].config
    table = Table(title=f"scale {config.scale}, percent; mean ± std over seeds", title_justify="left")
    for name in axes or ("",):
        table.add_column(name)
    for metric in METRICS:
        for title in SCENARIOS.values():
            table.add_column(f"{metric.replace('_', ' ')}, {title}", justify="right")
    best = max(
        (s.mean for p in points if (s := spread(_values(p, outcomes, "class_il", METRICS[0]))).count),
        default=None,
    )
    for point in points:
        found = [spread(_values(point, outcomes, s, m)) for m in METRICS for s in SCENARIOS]
        cells = [str(one) if one.count else "failed" for one in found]
        style = "bold" if best is not None and found[0].mean == best else None
        table.add_row(
            *([text(value) for value in point.values.values()] or ["as given"]), *cells, style=style
        )
    Console().print(table)


def _csv(points: Sequence[Point], axes: Mapping[str, Sequence[Any]], outcomes: Mapping[str, Outcome]) -> str:
    """Return a line for every run."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        [*axes, "seed", "run_id", *(f"{m}_{s}" for m in METRICS for s in SCENARIOS), "seconds", "error"]
    )
    for point in points:
        for resolved in point.seeds:
            outcome = outcomes[resolved.config.run_id]
            record = outcome.record
            metrics = [record["metrics"][s][m] if record else "" for m in METRICS for s in SCENARIOS]
            writer.writerow(
                [
                    *(text(value) for value in point.values.values()),
                    resolved.config.seed,
                    resolved.config.run_id,
                    *metrics,
                    record["seconds"] if record else "",
                    outcome.error or "",
                ]
            )
    return file.getvalue()
