"""How much of what was learned is lost."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.chart import Chart, Guide
from gplasc.report.groups import Panel
from gplasc.report.lines import ROWS, drawn_groups, folded, spread_series
from gplasc.report.section import Section, Subsection
from gplasc.report.wording import mark_difference, say_values, show_spread
from gplasc.results.table import Marked, Table


def forgetting(panels: Sequence[Panel]) -> Section | None:
    """How much of what was learned is lost."""
    parts = []
    for panel in panels:
        if all(group.num_tasks < 2 for group in panel.groups):
            continue
        shown = drawn_groups(panel, ROWS)
        labels = tuple(g.label for g in shown)
        series = tuple(
            spread_series(title, labels, [g.spread(scenario, "forgetting") for g in shown], index)
            for index, (scenario, title) in enumerate(SCENARIOS.items())
        )
        chart = Chart(
            "Forgetting after the last task",
            "",
            "percentage points",
            series,
            f"Class-IL forgetting in points: {say_values(zip(labels, series[0].y, strict=True))}.",
            kind="interval",
            guides=(Guide(0.0),),
            name="forgetting",
        )
        rows = []
        for group in panel.groups:
            row: list[str | Marked] = [group.label]
            for scenario in SCENARIOS:
                row += [
                    show_spread(group.spread(scenario, m))
                    for m in ("forgetting", "forgetting_nonnegative", "backward_transfer")
                ]
                row.append(mark_difference(panel.gain(group, scenario, "forgetting"), more_is_better=False))
            rows.append(tuple(row))
        names = ("forgetting", "never below 0", "backward transfer", "change by plug-in")
        table = Table(
            "Forgetting, percentage points",
            ("method", *(f"{title} {name}" for title in SCENARIOS.values() for name in names)),
            rows,
            name="forgetting",
        )
        parts.append(
            Subsection(
                panel.title,
                (chart, table) if chart.drawable else (table,),
                folded=folded(panels),
                folder=panel.name,
            )
        )
    if not parts:
        return None
    return Section(
        "Forgetting",
        text="Forgetting is the best accuracy a task ever had before the last task, minus what it has at the end, "
        "averaged over all tasks but the last (Chaudhry et al., 2018): lower is better, and below 0 means that later "
        "tasks helped. The second column counts the last row among the best, so that it is never below 0. Backward "
        "transfer is the accuracy at the end minus that when the task had just been learned.",
        parts=tuple(parts),
    )
