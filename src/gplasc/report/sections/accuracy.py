"""What the accuracy matrices say: accuracy by task and setting, forgetting, and the matrices themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gplasc._io.table import Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Series
from gplasc.report.heatmap import HeatMap
from gplasc.report.panels import LINES, ROWS, Panel, label
from gplasc.report.render import Block, Section
from gplasc.report.wording import file_name, say_values, show_difference, show_spread
from gplasc.results.group import Group, Measure, varying_settings
from gplasc.results.statistics import Spread, spread

_KINDS = (
    ("Mean accuracy on the tasks seen", "tasks learned", "After", "after-task"),
    ("Accuracy on each task at the end", "task", "On", "at-the-end"),
)
_METRICS = {
    "forgetting": "forgetting",
    "forgetting_nonnegative": "never below 0",
    "backward_transfer": "backward transfer",
}
_CELLS = 20_000  # entries of heat maps that the page shows at most; the rest is in the CSV tables


def accuracy_by_task(panels: Sequence[Panel]) -> Section | None:
    """Mean accuracy after each task, and of each task at the end."""
    text = (
        "Bars are one standard deviation over seeds. Methods without the plug-in are drawn dashed with open markers, "
        "in the color of the same method with it."
    )
    parts = [(panel, _charts(panel), panel.limit_note) for panel in panels]
    return Section.of("Accuracy by task", text, parts)


def _charts(panel: Panel) -> list[Chart]:
    charts = []
    for what, axis, last, name in _KINDS:
        for scenario, title in SCENARIOS.items():
            lines = [
                Series(row, _by_task(group, scenario, at_the_end=axis == "task"), *panel.looks[row])
                for group in panel.best(LINES)
                if (row := group.labels["row"])
            ]
            ends = [(line.name, line.values[panel.num_tasks].mean) for line in lines]
            words = f"{last} the last task: {say_values(ends)}."
            charts.append(
                Chart(
                    f"{what}, {title}", axis, "accuracy, percent", tuple(lines), words, zero_based=True,
                    name=f"{name}-{file_name(scenario)}",
                )
            )  # fmt: skip
    return charts


def _by_task(group: Group, scenario: str, *, at_the_end: bool) -> dict[float | str, Spread]:
    """For each task the accuracy on it at the end, or the mean over the tasks seen after it, over the runs."""
    matrices = np.array([record.matrix[scenario] for record in group.records], dtype=float)
    seen = np.ma.masked_invalid(matrices)
    by_task = seen[:, -1] if at_the_end else seen.mean(axis=2)
    return {task: spread(column.compressed().tolist()) for task, column in enumerate(by_task.T, 1)}


def forgetting(panels: Sequence[Panel]) -> Section | None:
    """How much of what was learned is lost."""
    text = (
        "Forgetting is the best accuracy a task ever had before the last task, minus what it has at the end, averaged "
        "over all tasks but the last (Chaudhry et al., 2018): lower is better, and below 0 means that later tasks "
        "helped. The second column counts the last row among the best, so that it is never below 0. Backward transfer "
        "is the accuracy at the end minus that when the task had just been learned."
    )
    return Section.of("Forgetting", text, [(p, _forgotten(p) if p.num_tasks > 1 else (), "") for p in panels])


def _forgotten(panel: Panel) -> list[Block]:
    measures = {name: [Measure(metric, scenario=name) for metric in _METRICS] for name in SCENARIOS}
    series = tuple(
        Series(title, {g.labels["row"]: g.spread(measures[scenario][0]) for g in panel.best(ROWS)}, index)
        for index, (scenario, title) in enumerate(SCENARIOS.items())
    )
    ends = [(str(row), value.mean) for row, value in series[0].values.items()]
    words = f"Class-IL forgetting in points: {say_values(ends)}."
    title = "Forgetting after the last task"
    chart = Chart(title, "", "percentage points", series, words, "interval", {0.0: ""}, name="forgetting")
    rows = []
    for group in panel.groups:
        row: list[str | Marked] = [group.labels["row"]]
        for own in measures.values():
            row += [show_spread(group.spread(measure)) for measure in own]
            row.append(show_difference(panel.gain(group, own[0]), more_is_better=False))
        rows.append(row)
    names = (*_METRICS.values(), "change by plug-in")
    columns = ("method", *(f"{title} {name}" for title in SCENARIOS.values() for name in names))
    return [chart, Table("Forgetting, percentage points", columns, rows, name="forgetting")]


def matrices(panels: Sequence[Panel]) -> Section | None:
    """Every accuracy matrix as a heat map; its color shows what was lost or gained since a task was learned."""
    left, hidden = _CELLS, 0
    parts = []
    for panel in panels:
        shown = [group for group in panel.groups if (left := left - 2 * panel.num_tasks**2) >= 0]
        hidden += len(panel.groups) - len(shown)
        maps = [_matrix(group, scenario) for scenario in SCENARIOS for group in shown]
        # One scale for the panel, so that methods compare; changes of a few points stay pale.
        changes = [np.nan_to_num(abs(heat.shades)) for heat in maps if heat.shades is not None]
        top = max([5.0, *(float(change.max()) for change in changes)])
        remark = f"Full color: a change of {top:.0f} points."
        parts.append((panel, [replace(heat, top=top) for heat in maps], remark))
    text = (
        "Row t, column i: accuracy in percent on task i after learning task t, mean over seeds. The color is the "
        "change since the task was learned: orange where accuracy was lost, blue where it was gained."
    )
    note = f"{hidden} more are left out here; `gplasc report --tables` writes all of them."
    return Section.of("Accuracy matrices", text, parts, fold_above=1, notes=[note] if hidden else ())


def _matrix(group: Group, scenario: str) -> HeatMap:
    matrix, row = group.matrix(scenario), group.labels["row"]
    tasks = tuple(str(task) for task in range(1, len(matrix) + 1))
    return HeatMap(
        f"{row}, {SCENARIOS[scenario]}", tasks, tasks, matrix, matrix - matrix.diagonal(),
        corner="after / on task",
        digits=1 if len(tasks) <= 10 else 0,
        name=f"matrix-{file_name(row)}-{file_name(scenario)}",
    )  # fmt: skip


def settings_effect(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy over a setting that was varied on its own, the size of the memory among them."""
    families: dict[tuple[str, str], dict[str, list[Group]]] = defaultdict(lambda: defaultdict(list))
    for panel in panels:
        for group in panel.groups:
            families[panel.stream, panel.scale][group.first.name].append(group)
    parts = []
    for (stream, scale), by_title in families.items():
        charts = []
        for name in dict.fromkeys(n for same in by_title.values() for n in varying_settings(same)):
            slices = [line for title, same in sorted(by_title.items()) for line in _slices(title, same, name)]
            if slices:
                charts += [_effect_chart(name, slices, scenario) for scenario in SCENARIOS]
        if charts:
            folder = f"{file_name(stream, 24)}-{file_name(scale)}"
            parts.append(Section(f"{stream}, {scale} scale", tuple(charts), folder=folder))
    text = "Each line varies one setting and keeps all others that were given; presets may follow."
    return Section("Effect of settings", text=text, parts=tuple(parts)) if parts else None


def _slices(title: str, groups: Sequence[Group], name: str) -> list[tuple[str, list[Group]]]:
    """Groups of one title that differ in the numeric setting `name` alone, at least three values each."""
    varying = varying_settings(groups)
    given = {n for n in varying if n == "buffer" or any(g.first.sources.get(n) == "given" for g in groups)}
    if name not in given:
        return []
    lines: dict[str, dict[float, Group]] = defaultdict(dict)
    for group in groups:
        value = group.settings.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            lines[label(title, group, sorted(given - {name}))].setdefault(float(value), group)
    return [(row, [same[value] for value in sorted(same)]) for row, same in lines.items() if len(same) >= 3]


def _effect_chart(name: str, slices: Sequence[tuple[str, list[Group]]], scenario: str) -> Chart:
    measure = Measure("final_accuracy", scenario=scenario)
    lines, words = [], []
    for index, (row, groups) in enumerate(slices):
        line = Series(row, {float(group.settings[name]): group.spread(measure) for group in groups}, index)
        lines.append(line)
        places, means, *_ = line.columns()
        if places:
            low, high = min(zip(means, places, strict=True)), max(zip(means, places, strict=True))
            words.append(f"{row} from {low[0]:.1f} at {low[1]:g} to {high[0]:.1f} at {high[1]:g}")
    values = [float(group.settings[name]) for _, groups in slices for group in groups]
    log_x = min(values) > 0 and max(values) / min(values) > 30
    axes, stem = (name, "accuracy, percent"), f"effect-{file_name(name)}-{file_name(scenario)}"
    title = f"{name}: final accuracy, {SCENARIOS[scenario]}"
    summary = "; ".join(words[:8]) + ("; and more." if len(words) > 8 else ".")
    return Chart(title, *axes, tuple(lines), summary, log_x=log_x, zero_based=True, name=stem)
