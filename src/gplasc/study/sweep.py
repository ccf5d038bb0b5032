"""`gplasc sweep`: a grid over settings and seeds, ending in a table."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gplasc._io.display import Display
from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Marked, Table
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.results.group import Measure, say_differing
from gplasc.results.statistics import ENOUGH_SEEDS
from gplasc.runs.spec import RunRequest
from gplasc.runs.workspace import Workspace
from gplasc.settings.components import is_file, short_name
from gplasc.settings.presets import row_name
from gplasc.study.cell import Cell, check_seeds
from gplasc.study.compute import print_failures
from gplasc.study.executors import Engine
from gplasc.study.points import parse_axes
from gplasc.study.study import Study

_NAMED = ("stream", "method", "plugins", "buffer")
_MEASURES = [
    Measure(metric, f"{metric.replace('_', ' ')}, {name}", scenario)
    for metric in ("final_accuracy", "forgetting")
    for scenario, name in SCENARIOS.items()
]


def run_sweep(
    words: Sequence[str],
    seeds: Sequence[int],
    request: RunRequest,
    workspace: Workspace,
    engine: Engine,
    *,
    fixed: Collection[str] = (),
    dry_run: bool = False,
    display: Display | None = None,
) -> int:
    """Compute the grid of axes (see `parse_axes`), print its table, and write it into ``out/sweep-HASH``.

    The names ``fixed`` were given for all points, so they cannot be axes as well. Returns 1 if a run failed, else 0.
    """
    processes = engine.processes(request.scale)
    axes = parse_axes(words)
    twice = [name for name in (*axes, *(["seed"] if seeds else [])) if name in fixed]
    if twice:
        raise UserError(f"'{twice[0]}' is given for all points and as an axis of the grid; leave one out")
    study = Study(_grid_cells(axes, seeds or (request.seed,), request), workspace)
    if dry_run:
        print(study.forecast(processes))
        return 0
    study.compute(engine.open(request.scale), display)
    _summary(study, axes, request.scale).print()
    name = hashlib.sha256(" ".join(sorted(study.outcomes)).encode()).hexdigest()[:8]
    lines = study.runs_table([*_MEASURES, Measure("seconds")])
    print(f"written: {write_atomic(workspace.out / f'sweep-{name}' / 'table.csv', lines.to_csv())}")
    print_failures(study.failures)
    return 1 if study.failures else 0


def _summary(study: Study, axes: Collection[str], scale: str) -> Table:
    """Return a row for every point, with mean and standard deviation over its seeds; the best of three is bold."""
    groups = [replace(g, labels={n: short_name(v) for n, v in g.labels.items()}) for g in study.groups()]
    tested = [spread for group in groups if (spread := group.spread(_MEASURES[0])).count >= ENOUGH_SEEDS]
    best = max((spread.mean for spread in tested), default=None)
    rows = []
    for group in groups:
        spreads = [group.spread(measure) for measure in _MEASURES]
        labels = {**group.labels} or {"": study.cells[0].spec.title}
        last = "plugins" if "plugins" in labels else list(labels)[-1]
        labels[last] = row_name(str(labels[last]), group.settings)
        row = list(map(str, labels.values()))
        row += [str(spread) if spread.count else "failed" for spread in spreads]
        is_best = spreads[0].mean == best and spreads[0].count >= ENOUGH_SEEDS
        rows.append([Marked(text, "best") if is_best else text for text in row])
    columns = [Column(name, "left") for name in axes or [""]]
    columns += [Column(measure.label) for measure in _MEASURES]
    notes = say_differing(groups, (*axes, "stream", "buffer"))
    sources = {item for cell in study.cells for item in cell.spec.sources.items()}
    changed = ", ".join(sorted(name for name, source in sources if source == "given" and "." in name))
    scale += f" (changed: {changed})" if changed and scale == "paper" else ""
    return Table(f"scale {scale}, percent; mean ± std over seeds", columns, rows, notes)


def _grid_cells(axes: Mapping[str, Sequence[Any]], seeds: Sequence[int], request: RunRequest) -> list[Cell]:
    """Return the runs of the product of the axes, the seed varying fastest; each axis is a label."""
    check_seeds(seeds)
    cells: list[Cell] = []
    taken: dict[str, str] = {}
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        named = {name: values.pop(name) for name in _NAMED if name in values}
        methods = list(map(str, axes.get("method", ())))
        if any(map(is_file, methods)) and not is_file(str(named["method"])):
            named["like"] = None  # it is about methods of the user's own
        labels = {name: _label(value) for name, value in zip(axes, combination, strict=True)}
        point = replace(request, **named, settings={**request.settings, **values})
        own = [Cell(labels, replace(point, seed=seed).resolve()) for seed in seeds]
        if own[0].run_id in taken:
            raise UserError(
                f"two points of the grid are the same run: {taken[own[0].run_id]} and {own[0].row}; leave one out"
            )
        taken[own[0].run_id] = own[0].row
        cells += own
    return cells


def _label(value: Any) -> str | int | float:
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return value if isinstance(value, int | float) else str(value)
