"""How much of what was learned is lost."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Guide
from gplasc.report.groups import Panel
from gplasc.report.lines import ROWS, drawn_groups, panel_section, spread_series
from gplasc.report.section import Block, Section
from gplasc.report.wording import mark_difference, say_values, show_spread

_NAME = "forgetting"
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
    return panel_section("Forgetting", text, panels, _blocks)


def _blocks(panel: Panel) -> list[Block]:
    if all(group.num_tasks < 2 for group in panel.groups):
        return []
    shown = drawn_groups(panel, ROWS)
    labels = [g.label for g in shown]
    series = tuple(
        spread_series(title, labels, [g.spread(scenario, "forgetting") for g in shown], index)
        for index, (scenario, title) in enumerate(SCENARIOS.items())
    )
    words = f"Class-IL forgetting in points: {say_values(zip(labels, series[0].y, strict=True))}."
    chart = Chart(
        "Forgetting after the last task",
        "",
        "percentage points",
        series,
        words,
        "interval",
        (Guide(0.0),),
        name=_NAME,
    )
    rows = []
    for group in panel.groups:
        row: list[str | Marked] = [group.label]
        for scenario in SCENARIOS:
            row += [show_spread(group.spread(scenario, metric)) for metric in _METRICS]
            row.append(mark_difference(panel.gain(group, scenario, "forgetting"), more_is_better=False))
        rows.append(row)
    names = (*_METRICS.values(), "change by plug-in")
    columns = ("method", *(f"{title} {name}" for title in SCENARIOS.values() for name in names))
    table = Table("Forgetting, percentage points", columns, rows, name=_NAME)
    return [chart, table] if chart.drawable else [table]
