"""Accuracy over the course of learning: lines by task, and the matrices behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart
from gplasc.report.groups import Group, Panel, finite
from gplasc.report.heatmap import Grid, HeatMap
from gplasc.report.lines import LINES, drawn_groups, group_line, line_styles, panel_section, say_limit
from gplasc.report.section import Section
from gplasc.report.wording import file_name, say_ends
from gplasc.results.statistics import Spread, spread

MATRIX_CELLS = 20_000
"""Entries of accuracy matrices that the page shows at most; the rest is in the CSV tables."""


def _after_each_task(group: Group, scenario: str) -> list[tuple[float, Spread]]:
    points = []
    for after in range(group.num_tasks):
        means = []
        for record in group.records:
            seen = finite(record["matrix"][scenario][after])
            if seen:
                means.append(sum(seen) / len(seen))
        points.append((float(after + 1), spread(means)))
    return points


def _at_the_end(group: Group, scenario: str) -> list[tuple[float, Spread]]:
    return [
        (float(task + 1), spread(finite(r["matrix"][scenario][-1][task] for r in group.records)))
        for task in range(group.num_tasks)
    ]


def accuracy_by_task(panels: Sequence[Panel]) -> Section | None:
    """Mean accuracy after each task, and of each task at the end."""
    text = (
        "Bars are one standard deviation over seeds. Methods without the plug-in are drawn dashed with open markers, "
        "in the color of the same method with it."
    )
    return panel_section("Accuracy by task", text, panels, _charts, remark=say_limit)


def _charts(panel: Panel) -> list[Chart]:
    styles = line_styles(panel)
    charts = []
    for points, what, label, last, name in (
        (_after_each_task, "Mean accuracy on the tasks seen", "tasks learned", "After", "after-task"),
        (_at_the_end, "Accuracy on each task at the end", "task", "On", "at-the-end"),
    ):
        for scenario, title in SCENARIOS.items():
            lines = tuple(group_line(g, points(g, scenario), styles) for g in drawn_groups(panel, LINES))
            words = f"{last} the last task: {say_ends(lines)}."
            name_of = f"{name}-{file_name(scenario)}"
            heading = f"{what}, {title}"
            charts.append(
                Chart(heading, label, "accuracy, percent", lines, words, zero_based=True, name=name_of)
            )
    return charts


def _changes(matrix: Sequence[Sequence[float | None]]) -> Grid:
    """Accuracy minus that when the task had just been learned."""
    learned = [matrix[task][task] for task in range(len(matrix))]
    return tuple(
        tuple(
            None if v is None or start is None else v - start for v, start in zip(row, learned, strict=True)
        )
        for row in matrix
    )


def matrices(panels: Sequence[Panel]) -> Section | None:
    """Every accuracy matrix as a heat map; its color shows what was lost or gained since a task was learned."""
    shown: dict[int, list[HeatMap]] = {}
    left, hidden = MATRIX_CELLS, 0
    for panel in panels:
        groups = []
        for group in panel.groups:
            left -= 2 * group.num_tasks**2
            hidden += left < 0
            groups += [group] if left >= 0 else []
        maps = [_matrix(group, scenario) for scenario in SCENARIOS for group in groups]
        # One scale for the panel, so that methods compare; changes of a few points stay pale.
        changes = finite(v for heat in maps for row in heat.shades or () for v in row)
        shown[id(panel)] = [replace(heat, top=max([5.0, *map(abs, changes)])) for heat in maps]
    return panel_section(
        "Accuracy matrices",
        "Row t, column i: accuracy in percent on task i after learning task t, mean over seeds. The color is the "
        "change since the task was learned: orange where accuracy was lost, blue where it was gained.",
        panels,
        lambda panel: shown[id(panel)],
        remark=lambda panel: f"Full color: a change of {shown[id(panel)][0].top:.0f} points.",
        fold_above=1,
        notes=[f"{hidden} more are left out here; `gplasc report --tables` writes all of them."]
        if hidden
        else (),
    )


def _matrix(group: Group, scenario: str) -> HeatMap:
    tasks = tuple(str(task + 1) for task in range(group.num_tasks))
    matrix = group.matrix(scenario)
    return HeatMap(
        f"{group.label}, {SCENARIOS[scenario]}",
        tasks,
        tasks,
        tuple(tuple(row) for row in matrix),
        _changes(matrix),
        corner="after / on task",
        digits=1 if group.num_tasks <= 10 else 0,
        name=f"matrix-{file_name(group.label)}-{file_name(scenario)}",
    )
