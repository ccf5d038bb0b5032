"""Final accuracy of every group with the gain of the plug-ins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc._io.table import Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Guide, Series
from gplasc.report.panels import ROWS, Panel, rank, unlike
from gplasc.report.section import Block, Section
from gplasc.report.wording import show_difference, show_spread, show_value
from gplasc.results.group import Measure, finite
from gplasc.results.statistics import ENOUGH_PAIRS

_ACCURACIES = {scenario: Measure("final_accuracy", scenario=scenario) for scenario in SCENARIOS}


def summary(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy of every group with the gain of the plug-ins."""
    text = (
        "Accuracies are percent of the test images, averaged over tasks after the last one: among all classes "
        "seen (class-IL), or among those of the image's own task (task-IL). Each entry is mean ± standard deviation "
        "over n seeds. A gain is the mean difference, seed by seed, to the same method without the plug-in, with its "
        "95 % interval by Student's t; ✓ (better) and ✗ (worse) mark intervals of at least "
        f"{ENOUGH_PAIRS} seeds that do not include 0."
    )
    parts = [(panel, _blocks(panel), "") for panel in panels]
    notes = [note for panel in panels for note in _unlike_notes(panel)]
    return Section.of("Summary", text, parts, fold_above=math.inf, notes=notes)


def _blocks(panel: Panel) -> list[Block]:
    chart = _gain_chart(panel)
    return [_summary_table(panel), chart] if chart.drawable else [_summary_table(panel)]


def _unlike_notes(panel: Panel) -> list[str]:
    """Say in which settings a group and its base also differ."""
    notes = []
    for group, base in panel.pairs:
        names = ", ".join(
            f"{n} ({show_value(group.settings.get(n))}, base {show_value(base.settings.get(n))})"
            for n in unlike(group, base)
        )
        if names:
            notes.append(f"{panel.title}: {group.labels['row']} and its base also differ in {names}.")
    return notes


def _summary_table(panel: Panel) -> Table:
    """Both scenarios' accuracy with gains, and forgetting."""
    columns = ["method", "n"]
    for title in SCENARIOS.values():
        columns += [f"{title} accuracy", *([f"{title} gain"] if panel.pairs else [])]
    columns += ["class-IL average incremental", "class-IL forgetting", "task-IL forgetting"]
    best = {
        measure: max(finite(group.spread(measure).mean for group in panel.groups), default=math.nan)
        for measure in _ACCURACIES.values()
    }
    rows = []
    for group in panel.groups:
        row: list[str | Marked] = [group.labels["row"], str(len(group.records))]
        for measure in _ACCURACIES.values():
            value = group.spread(measure)
            is_best = value.mean == best[measure] and len(panel.groups) > 1
            row.append(Marked(show_spread(value), "best" if is_best else ""))
            if panel.pairs:
                row.append(show_difference(panel.gain(group, measure)))
        row.append(show_spread(group.spread(Measure("average_incremental_accuracy", scenario="class_il"))))
        row += [show_spread(group.spread(Measure("forgetting", scenario=scenario))) for scenario in SCENARIOS]
        rows.append(row)
    return Table("Final accuracy, percent", columns, rows, panel.scale_notes, name="summary")


def _gain_chart(panel: Panel) -> Chart:
    """The gains as dots with intervals."""
    best = sorted((group for group, _ in panel.pairs), key=rank, reverse=True)[:ROWS]
    labels = [group.labels["row"] for group in best]
    series = []
    for index, (scenario, measure) in enumerate(_ACCURACIES.items()):
        measured = {group.labels["row"]: panel.gain(group, measure) for group, _ in panel.pairs}
        gains = {label: gain for label, gain in measured.items() if gain and label in labels}
        values, low, high = (
            tuple(getattr(gain, end) for gain in gains.values()) for end in ("mean", "low", "high")
        )
        series.append(Series(SCENARIOS[scenario], tuple(gains), values, low, high, index))
        if index == 0:
            words = "; ".join(f"{label} {show_difference(gain).value}" for label, gain in gains.items())
    text = f"Class-IL gain in points: {words}."
    title = "Gain by the plug-in over the same method without it"
    return Chart(title, "", "percentage points", tuple(series), text, "interval", (Guide(0.0),), name="gain")
