"""Final accuracy of every group with the gain of the plug-ins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.chart import Chart, Guide, Series
from gplasc.report.groups import Panel, finite, show_value
from gplasc.report.lines import ROWS, rank
from gplasc.report.section import Block, Section, Subsection
from gplasc.report.wording import (
    SEEDS,
    cut_words,
    known,
    mark_difference,
    scale_note,
    show_difference,
    show_spread,
)
from gplasc.results.table import Marked, Table


def summary(panels: Sequence[Panel]) -> Section:
    """Final accuracy of every group with the gain of the plug-ins."""
    parts = []
    for panel in panels:
        blocks: list[Block] = [summary_table(panel)]
        gains = gain_chart(panel)
        if gains is not None:
            blocks.append(gains)
        parts.append(Subsection(panel.title, tuple(blocks), folder=panel.name))
    text = (
        "Accuracies are percent of the test images, averaged over tasks after the last one: among all classes "
        "seen (class-IL), or among those of the image's own task (task-IL). Each entry is mean ± standard deviation "
        "over n seeds. A gain is the mean difference, seed by seed, to the same method without the plug-in, with its "
        "95 % interval by Student's t; ✓ (better) and ✗ (worse) mark those whose interval leaves 0 out and rests on at "
        f"least {SEEDS} seeds."
    )
    return Section("Summary", text=text, parts=tuple(parts), notes=tuple(_unlike_notes(panels)))


def _unlike_notes(panels: Sequence[Panel]) -> list[str]:
    notes = []
    for panel in panels:
        for c in panel.comparisons:
            if c.unlike:
                names = ", ".join(
                    f"{n} ({show_value(c.group.settings.get(n))}, base {show_value(c.base.settings.get(n))})"
                    for n in c.unlike
                )
                notes.append(f"{panel.title}: {c.group.label} and its base also differ in {names}.")
    return notes


def summary_table(panel: Panel) -> Table:
    """Both scenarios' accuracy with gains, and forgetting."""
    has_gain = bool(panel.comparisons)
    columns = ["method", "n"]
    for title in SCENARIOS.values():
        columns += [f"{title} accuracy", *([f"{title} gain"] if has_gain else [])]
    columns += ["class-IL average incremental", "class-IL forgetting", "task-IL forgetting"]
    best = {
        scenario: max(
            finite(g.spread(scenario, "final_accuracy").mean for g in panel.contestants), default=math.nan
        )
        for scenario in SCENARIOS
    }
    rows = []
    for group in panel.groups:
        row: list[str | Marked] = [group.label, str(len(group.records))]
        for scenario in SCENARIOS:
            value = group.spread(scenario, "final_accuracy")
            is_best = value.mean == best[scenario] and len(panel.groups) > 1 and group in panel.contestants
            row.append(Marked(show_spread(value), "best" if is_best else ""))
            if has_gain:
                row.append(mark_difference(panel.gain(group, scenario, "final_accuracy")))
        row.append(show_spread(group.spread("class_il", "average_incremental_accuracy")))
        row += [show_spread(group.spread(scenario, "forgetting")) for scenario in SCENARIOS]
        rows.append(tuple(row))
    return Table(
        "Final accuracy, percent",
        columns,
        rows,
        notes=[note] if (note := scale_note(panel.scale)) else [],
        name="summary",
    )


def gain_chart(panel: Panel) -> Chart | None:
    """The gains as dots with intervals."""
    if not panel.comparisons:
        return None
    series = []
    words: list[str] = []
    drawn = sorted(panel.comparisons, key=lambda c: -rank(c.group))[:ROWS]
    for index, (scenario, title) in enumerate(SCENARIOS.items()):
        gains = [
            (c.group.label, c.difference(scenario, "final_accuracy")) for c in panel.comparisons if c in drawn
        ]
        pairs = [(label, gain) for label, gain in gains if gain.count]
        words = words or [f"{label} {show_difference(gain)}" for label, gain in pairs]
        series.append(
            Series(
                title,
                tuple(label for label, _ in pairs),
                tuple(g.mean for _, g in pairs),
                low=tuple(known(g.low) for _, g in pairs),
                high=tuple(known(g.high) for _, g in pairs),
                color=index,
            )
        )
    chart = Chart(
        "Gain by the plug-in over the same method without it",
        "",
        "percentage points",
        tuple(series),
        cut_words("Class-IL gain in points: " + "; ".join(words) + "."),
        kind="interval",
        guides=(Guide(0.0),),
        name="gain",
    )
    return chart if chart.drawable else None
