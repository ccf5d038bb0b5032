"""Our numbers and the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc._io.table import Column, Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.published import Published
from gplasc.report.panels import Panel
from gplasc.report.section import Section
from gplasc.report.wording import show_difference, show_spread, signed
from gplasc.results.group import Group, Measure

_METRICS = {"final_accuracy": "final accuracy", "forgetting": "forgetting"}


def against_paper(panels: Sequence[Panel]) -> Section | None:
    """Our numbers and the published ones, where there are any."""
    notes: list[str] = []
    parts = [(panel, [table] if (table := _table(panel, notes)) else [], "") for panel in panels]
    text = (
        "Published numbers are those of the full protocol. A difference is given only where ours was measured at "
        "paper scale too; elsewhere the two stand side by side to compare the order of methods and the sign of gains, "
        "and are no reproduction."
    )
    return Section.of("Compared with the paper", text, parts, fold_above=math.inf, notes=notes)


def _table(panel: Panel, notes: list[str]) -> Table | None:
    """Our and the paper's numbers for one panel; None when the paper has none. Adds the remarks to the notes.

    A variant of a method that differs from the preset has no published counterpart, so it is left out.
    """
    rows = []
    titles = [group.first.title for group in panel.groups]
    for group in panel.groups:
        given = any(source == "given" for name, source in group.first.sources.items() if "." in name)
        if titles.count(group.first.title) > 1 and given:
            continue
        for scenario in SCENARIOS:
            for metric in _METRICS:
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
        f"{SCENARIOS[measure.scenario or '']} {_METRICS[measure.metric]}",
        number.label,
        show_spread(ours),
        str(ours.count),
        str(number),
        signed(gap) if comparable else Marked("–", "muted"),
        str(show_difference(panel.gain(group, measure)).value),
        "–" if theirs is None else signed(theirs),
    )
