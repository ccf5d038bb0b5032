"""How much of what was learned is lost."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Guide, Series
from gplasc.report.panels import ROWS, Panel
from gplasc.report.section import Block, Section
from gplasc.report.wording import say_values, show_difference, show_spread
from gplasc.results.group import Measure

_METRICS = {
    "forgetting": "forgetting",
    "forgetting_nonnegative": "never below 0",
    "backward_transfer": "backward transfer",
}


def forgetting(panels: Sequence[Panel]) -> Section | None:
    """How much of what was learned is lost."""
    text = (
        "Forgetting is the best accuracy a task ever had before the last task, minus what it has at the end, averaged "
        "over all tasks but the last (Chaudhry et al., 2018): lower is better, and below 0 means that later tasks "
        "helped. The second column counts the last row among the best, so that it is never below 0. Backward transfer "
        "is the accuracy at the end minus that when the task had just been learned."
    )
    return Section.of("Forgetting", text, [(p, _blocks(p) if p.num_tasks > 1 else (), "") for p in panels])


def _blocks(panel: Panel) -> list[Block]:
    shown = panel.best(ROWS)
    labels = [group.labels["row"] for group in shown]
    series = tuple(
        Series.of(title, labels, [g.spread(Measure("forgetting", scenario=scenario)) for g in shown], index)
        for index, (scenario, title) in enumerate(SCENARIOS.items())
    )
    words = f"Class-IL forgetting in points: {say_values(zip(labels, series[0].y, strict=True))}."
    title = "Forgetting after the last task"
    guides = (Guide(0.0),)
    chart = Chart(title, "", "percentage points", series, words, "interval", guides, name="forgetting")
    rows = []
    for group in panel.groups:
        row: list[str | Marked] = [group.labels["row"]]
        for scenario in SCENARIOS:
            measures = [Measure(metric, scenario=scenario) for metric in _METRICS]
            row += [show_spread(group.spread(measure)) for measure in measures]
            row.append(show_difference(panel.gain(group, measures[0]), more_is_better=False))
        rows.append(row)
    names = (*_METRICS.values(), "change by plug-in")
    columns = ("method", *(f"{title} {name}" for title in SCENARIOS.values() for name in names))
    table = Table("Forgetting, percentage points", columns, rows, name="forgetting")
    return [chart, table] if chart.drawable else [table]
