"""The accuracy matrices as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.heatmap import HeatMap
from gplasc.report.panels import Panel
from gplasc.report.section import Section
from gplasc.report.wording import file_name
from gplasc.results.group import Group, finite

_CELLS = 20_000  # entries that the page shows at most; the rest is in the CSV tables


def matrices(panels: Sequence[Panel]) -> Section | None:
    """Every accuracy matrix as a heat map; its color shows what was lost or gained since a task was learned."""
    left, hidden = _CELLS, 0
    parts = []
    for panel in panels:
        shown = [group for group in panel.groups if (left := left - 2 * panel.num_tasks**2) >= 0]
        hidden += len(panel.groups) - len(shown)
        maps = [_matrix(group, scenario, panel.num_tasks) for scenario in SCENARIOS for group in shown]
        # One scale for the panel, so that methods compare; changes of a few points stay pale.
        changes = finite(value for heat in maps for row in heat.shades or () for value in row)
        top = max([5.0, *map(abs, changes)])
        remark = f"Full color: a change of {top:.0f} points."
        parts.append((panel, [replace(heat, top=top) for heat in maps], remark))
    text = (
        "Row t, column i: accuracy in percent on task i after learning task t, mean over seeds. The color is the "
        "change since the task was learned: orange where accuracy was lost, blue where it was gained."
    )
    note = f"{hidden} more are left out here; `gplasc report --tables` writes all of them."
    return Section.of("Accuracy matrices", text, parts, fold_above=1, notes=[note] if hidden else ())


def _matrix(group: Group, scenario: str, num_tasks: int) -> HeatMap:
    tasks = tuple(str(task + 1) for task in range(num_tasks))
    matrix = group.matrix(scenario)
    learned = [matrix[task][task] for task in range(num_tasks)]
    changes = (
        tuple(
            None if v is None or start is None else v - start for v, start in zip(row, learned, strict=True)
        )
        for row in matrix
    )
    row = group.labels["row"]
    return HeatMap(
        f"{row}, {SCENARIOS[scenario]}",
        tasks,
        tasks,
        tuple(map(tuple, matrix)),
        tuple(changes),
        corner="after / on task",
        digits=1 if num_tasks <= 10 else 0,
        name=f"matrix-{file_name(row)}-{file_name(scenario)}",
    )
