"""Final accuracy of every group with the gain of the plug-ins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc._io.table import Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Guide, Series
from gplasc.report.groups import Panel, finite, show_value
from gplasc.report.lines import ROWS, panel_section, rank
from gplasc.report.section import Block, Section
from gplasc.report.wording import (
    SEEDS,
    cut_words,
    known,
    mark_difference,
    scale_note,
    show_difference,
    show_spread,
)


def summary(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy of every group with the gain of the plug-ins."""
    text = (
        "Accuracies are percent of the test images, averaged over tasks after the last one: among all classes "
        "seen (class-IL), or among those of the image's own task (task-IL). Each entry is mean ± standard deviation "
        "over n seeds. A gain is the mean difference, seed by seed, to the same method without the plug-in, with its "
        "95 % interval by Student's t; ✓ (better) and ✗ (worse) mark intervals of at least "
        f"{SEEDS} seeds that do not include 0."
    )
    notes = _unlike_notes(panels)
    return panel_section("Summary", text, panels, _blocks, fold_above=math.inf, notes=notes)


def _blocks(panel: Panel) -> list[Block]:
    chart = _gain_chart(panel)
    return [_summary_table(panel), chart] if chart else [_summary_table(panel)]


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


def _summary_table(panel: Panel) -> Table:
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


def _gain_chart(panel: Panel) -> Chart | None:
    """The gains as dots with intervals; None without any."""
    best = sorted(panel.comparisons, key=lambda c: -rank(c.group))[:ROWS]
    drawn = [c for c in panel.comparisons if c in best]
    series, words = [], []
    for index, (scenario, title) in enumerate(SCENARIOS.items()):
        gains = [(c.group.label, c.difference(scenario, "final_accuracy")) for c in drawn]
        known_gains = [(label, gain) for label, gain in gains if gain.count]
        words += [f"{label} {show_difference(gain)}" for label, gain in known_gains if index == 0]
        labels = tuple(label for label, _ in known_gains)
        values = tuple(gain.mean for _, gain in known_gains)
        low, high = (tuple(known(getattr(gain, end)) for _, gain in known_gains) for end in ("low", "high"))
        series.append(Series(title, labels, values, low, high, index))
    text = cut_words("Class-IL gain in points: " + "; ".join(words) + ".", 400)
    title = "Gain by the plug-in over the same method without it"
    chart = Chart(title, "", "percentage points", tuple(series), text, "interval", (Guide(0.0),), name="gain")
    return chart if chart.drawable else None
