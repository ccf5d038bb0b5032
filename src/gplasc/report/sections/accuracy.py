"""Mean accuracy after each task, and of each task at the end."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Series
from gplasc.report.panels import LINES, Panel
from gplasc.report.section import Section
from gplasc.report.wording import file_name, say_values
from gplasc.results.group import Group, finite
from gplasc.results.statistics import Spread, spread

_KINDS = (
    ("Mean accuracy on the tasks seen", "tasks learned", "After", "after-task"),
    ("Accuracy on each task at the end", "task", "On", "at-the-end"),
)


def accuracy_by_task(panels: Sequence[Panel]) -> Section | None:
    """Mean accuracy after each task, and of each task at the end."""
    text = (
        "Bars are one standard deviation over seeds. Methods without the plug-in are drawn dashed with open markers, "
        "in the color of the same method with it."
    )
    parts = [(panel, _charts(panel), panel.limit_note) for panel in panels]
    return Section.of("Accuracy by task", text, parts)


def _charts(panel: Panel) -> list[Chart]:
    places = range(1, panel.num_tasks + 1)
    charts = []
    for what, label, last, name in _KINDS:
        for scenario, title in SCENARIOS.items():
            lines = tuple(
                Series.of(
                    row, places, _spreads(group, scenario, at_the_end=label == "task"), *panel.looks[row]
                )
                for group in panel.best(LINES)
                if (row := group.labels["row"])
            )
            words = f"{last} the last task: {say_values((line.name, line.y[-1]) for line in lines)}."
            charts.append(
                Chart(
                    f"{what}, {title}", label, "accuracy, percent", lines, words, zero_based=True,
                    name=f"{name}-{file_name(scenario)}",
                )
            )  # fmt: skip
    return charts


def _spreads(group: Group, scenario: str, *, at_the_end: bool) -> list[Spread]:
    """For each task the accuracy on it at the end, or the mean over the tasks seen after it, over the runs."""
    matrices = [record.matrix[scenario] for record in group.records]
    if at_the_end:
        return [spread(finite(column)) for column in zip(*(matrix[-1] for matrix in matrices), strict=True)]
    seen = [[finite(row) for row in rows] for rows in zip(*matrices, strict=True)]
    return [spread([sum(row) / len(row) for row in rows if row]) for rows in seen]
