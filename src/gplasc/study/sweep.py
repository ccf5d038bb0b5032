"""`gplasc sweep`: a grid over settings and seeds, ending in a table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Marked, Table
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.results.statistics import spread
from gplasc.runs.spec import identify_all
from gplasc.runs.workspace import Workspace
from gplasc.study.cell import Cell, Outcome
from gplasc.study.compute import compute, print_failures
from gplasc.study.executors import Engine
from gplasc.study.forecast import forecast
from gplasc.study.grid import Point, grid_points, parse_axes

_MEASURES = [(metric, scenario) for metric in ("final_accuracy", "forgetting") for scenario in SCENARIOS]


def run_sweep(
    words: Sequence[str],
    seeds: Sequence[int],
    arguments: Mapping[str, Any],
    *,
    fixed: Collection[str] = (),
    out: Path,
    data_dir: Path | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
    display: Display | None = None,
) -> int:
    """Compute the grid, print its table and write it into ``out/sweep-HASH``.

    Args:
        words: Axes, see `parse_axes`.
        seeds: Seeds of every point; default: that of the arguments.
        arguments: What `gplasc.runs.spec.RunRequest` is called with where the axes say nothing.
        fixed: Names that were given for all points, so that they cannot be axes as well.
        out: Folder of all runs.
        data_dir: Where data sets are.
        device: Where to compute.
        engine: What computes the runs; default: processes of this machine.
        dry_run: Only print how long it would take.
        display: Shows the progress.

    Returns:
        0, or 1 if a run failed.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    engine = engine or Engine()
    processes = engine.processes(arguments["scale"])
    axes = parse_axes(words)
    twice = [name for name in (*axes, *(["seed"] if seeds else [])) if name in fixed]
    if twice:
        raise UserError(f"'{twice[0]}' is given for all points and as an axis of the grid; leave one out")
    given = dict(arguments)
    own_seed = given.pop("seed")
    points = [
        replace(point, seeds=tuple(identify_all(point.seeds, data_dir=data_dir)))
        for point in grid_points(axes, seeds or (own_seed,), **given)
    ]
    workspace = Workspace(out, data_dir, device)
    cells = [
        Cell(dict(zip(point.values, point.texts, strict=True)), resolved)
        for point in points
        for resolved in point.seeds
    ]
    if dry_run:
        print(forecast(cells, workspace, threads=processes.threads).text(processes.workers))
        return 0
    results = compute(cells, workspace, engine.open(arguments["scale"]), display)
    _summary(points, axes, results).print()
    name = hashlib.sha256(" ".join(sorted(results)).encode()).hexdigest()[:8]
    path = write_atomic(out / f"sweep-{name}" / "table.csv", _runs(points, axes, results).to_csv())
    print(f"written: {path}")
    failed = [result for result in results.values() if result.state == "failed"]
    print_failures(failed)
    return 1 if failed else 0


def _summary(points: Sequence[Point], axes: Collection[str], results: Mapping[str, Outcome]) -> Table:
    """Return a row for every point, with mean and standard deviation over its seeds."""
    rows: list[list[str]] = []
    accuracies: list[float] = []
    for point in points:
        records = [results[resolved.config.run_id].record for resolved in point.seeds]
        found = [spread([float(r["metrics"][s][m]) for r in records if r is not None]) for m, s in _MEASURES]
        accuracies.append(found[0].mean if found[0].count else -1.0)
        rows.append([*(point.texts or ["as given"]), *(str(one) if one.count else "failed" for one in found)])
    best = max(accuracies)
    return Table(
        f"scale {points[0].seeds[0].config.scale}, percent; mean ± std over seeds",
        [
            *(Column(name, "left") for name in axes or [""]),
            *(f"{m.replace('_', ' ')}, {SCENARIOS[s]}" for m, s in _MEASURES),
        ],
        [
            [Marked(text, "best") if accuracy == best >= 0 else text for text in row]
            for row, accuracy in zip(rows, accuracies, strict=True)
        ],
    )


def _runs(points: Sequence[Point], axes: Collection[str], results: Mapping[str, Outcome]) -> Table:
    """Return a row for every run."""
    rows = []
    for point in points:
        for resolved in point.seeds:
            result = results[resolved.config.run_id]
            record = result.record
            rows.append(
                [
                    *point.texts,
                    resolved.config.seed,
                    result.cell.run_id,
                    *(record["metrics"][s][m] if record else None for m, s in _MEASURES),
                    record["seconds"] if record else None,
                    result.error or None,
                ]
            )
    measures = [f"{metric}_{scenario}" for metric, scenario in _MEASURES]
    return Table("", [*axes, "seed", "run_id", *measures, "seconds", "error"], rows)
