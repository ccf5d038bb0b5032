"""Final accuracy of every group with the gain of the plug-ins, and next to the published numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc._io.table import Column, Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.published import Published
from gplasc.report.charts import Chart, Series
from gplasc.report.panels import ROWS, Panel, rank, unlike
from gplasc.report.render import Section
from gplasc.report.wording import say_values, show_difference, show_spread, show_value, signed
from gplasc.results.group import Group, Measure, finite, say_differing
from gplasc.results.statistics import ENOUGH_PAIRS, ENOUGH_SEEDS

_ACCURACIES = {scenario: Measure("final_accuracy", scenario=scenario) for scenario in SCENARIOS}
_PUBLISHED = {"final_accuracy": "final accuracy", "forgetting": "forgetting"}


def summary(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy of every group with the gain of the plug-ins."""
    text = (
        "Accuracies are percent of the test images, averaged over tasks after the last one: among all classes "
        "seen (class-IL), or among those of the image's own task (task-IL). Each entry is mean ± standard deviation "
        f"over n seeds; the highest is bold if it has at least {ENOUGH_SEEDS}. A gain is the mean difference, seed by "
        "seed, to the same method without the plug-in, with its 95 % interval by Student's t; ✓ (better) and ✗ (worse) "
        f"mark intervals of at least {ENOUGH_PAIRS} seeds that do not include 0."
    )
    parts = [(panel, (_summary_table(panel), _gain_chart(panel)), "") for panel in panels]
    several = len(panels) > 1
    notes = [f"{panel.title}: {note}" if several else note for panel in panels for note in _notes(panel)]
    return Section.of("Summary", text, parts, fold_above=math.inf, notes=notes)


def _notes(panel: Panel) -> list[str]:
    """Say in which settings a group and its base also differ, and all rows."""
    notes = []
    for group, base in panel.pairs:
        names = ", ".join(
            f"{n} ({show_value(group.settings.get(n))}, base {show_value(base.settings.get(n))})"
            for n in unlike(group, base)
        )
        if names:
            notes.append(f"{group.labels['row']} and its base also differ in {names}.")
    return [*notes, *say_differing(panel.groups)]


def _summary_table(panel: Panel) -> Table:
    """Both scenarios' accuracy with gains, and forgetting."""
    columns = ["method", "n"]
    for title in SCENARIOS.values():
        columns += [f"{title} accuracy", *([f"{title} gain"] if panel.pairs else [])]
    columns += ["class-IL average incremental", "class-IL forgetting", "task-IL forgetting"]
    smoke = panel.scale == "smoke"  # where numbers mean nothing
    compared = [group for group in panel.groups if not (group.first.sees_all_tasks or smoke)]
    best = {
        measure: max(finite(group.spread(measure).mean for group in compared), default=math.nan)
        for measure in _ACCURACIES.values()
    }
    rows = []
    for group in panel.groups:
        row: list[str | Marked] = [group.labels["row"], str(len(group.records))]
        for measure in _ACCURACIES.values():
            value = group.spread(measure)
            is_best = value.mean == best[measure] and len(compared) > 1 and value.count >= ENOUGH_SEEDS
            row.append(Marked(show_spread(value), "best" if is_best else ""))
            if panel.pairs:
                row.append(show_difference(panel.gain(group, measure)))
        row.append(show_spread(group.spread(Measure("average_incremental_accuracy", scenario="class_il"))))
        row += [show_spread(group.spread(Measure("forgetting", scenario=scenario))) for scenario in SCENARIOS]
        rows.append(row)
    return Table("Final accuracy, percent", columns, rows, panel.scale_notes, name="summary")


def _gain_chart(panel: Panel) -> Chart:
    """The gains as dots with intervals."""
    shown = sorted((group for group, _ in panel.pairs), key=rank, reverse=True)[:ROWS]
    best = {group.labels["row"]: group for group, _ in panel.pairs if group in shown}
    gains = [
        {label: gain for label, group in best.items() if (gain := panel.gain(group, measure))}
        for measure in _ACCURACIES.values()
    ]
    series = tuple(map(Series, SCENARIOS.values(), gains, range(len(gains))))
    text = f"Class-IL gain in points: {say_values((label, gain.mean) for label, gain in gains[0].items())}."
    title = "Gain by the plug-in over the same method without it"
    return Chart(title, "", "percentage points", series, text, "interval", {0.0: ""}, name="gain")


def against_paper(panels: Sequence[Panel]) -> Section | None:
    """Our numbers and the published ones, where there are any."""
    notes: list[str] = []
    parts = [(panel, [table] if (table := _table(panel, notes)) else [], "") for panel in panels]
    text = (
        "Published numbers are those of the full protocol. A difference is given only where ours was measured at "
        "paper scale too; elsewhere the two stand side by side to compare the order of methods and the sign of gains, "
        "and are no reproduction. Runs with settings that were given, and plug-ins in another than their published "
        "form, have no published counterpart."
    )
    return Section.of("Compared with the paper", text, parts, fold_above=math.inf, notes=notes)


def _table(panel: Panel, notes: list[str]) -> Table | None:
    """Our and the paper's numbers for one panel; None when the paper has none. Adds the remarks to the notes."""
    rows = []
    for group in panel.groups:
        for scenario in SCENARIOS:
            for metric in _PUBLISHED:
                measure = Measure(metric, scenario=scenario)
                for number in panel.published(group, measure):
                    rows.append(_row(group, panel, measure, number))
                    notes += [f"{number.label}, {number.printed}: {note}" for note in number.notes]
    columns = (
        "method", Column("metric", "left"), Column("published in", "left"), f"ours, {panel.scale} scale", "n",
        "the paper", "ours − paper", "our gain", "the paper's gain",
    )  # fmt: skip
    return Table("Ours and the paper's", columns, rows, panel.scale_notes, name="paper") if rows else None


def _row(group: Group, panel: Panel, measure: Measure, number: Published) -> tuple[str | Marked, ...]:
    ours = group.spread(measure)
    gap = ours.mean - number.mean
    comparable = panel.scale == "paper" and math.isfinite(gap)
    theirs = panel.published_gain(number, group, measure)
    return (
        group.labels["row"],
        f"{SCENARIOS[measure.scenario or '']} {_PUBLISHED[measure.metric]}",
        number.label,
        show_spread(ours),
        str(ours.count),
        str(number),
        signed(gap) if comparable else Marked("–", "muted"),
        str(show_difference(panel.gain(group, measure)).value),
        "–" if theirs is None else signed(theirs),
    )
