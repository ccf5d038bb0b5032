"""Our numbers beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc.reference import Published, lookup, tables
from gplasc.report.groups import METRICS, SCENARIOS, Comparison, Group, Panel
from gplasc.report.section import Part, Section
from gplasc.report.table import Cell, Table
from gplasc.report.wording import show_difference, show_spread


def find_published(group: Group, panel: Panel, scenario: str, metric: str) -> list[Published]:
    """Every published number that this group's would reproduce at paper scale, one a table of the paper."""
    found = []
    for name in tables():
        number = lookup(
            name, group.title, stream=panel.stream, buffer=panel.buffer, scenario=scenario, metric=metric
        )
        if number is not None and number not in found:
            found.append(number)
    return found


def paper_table(panel: Panel) -> tuple[Table, list[str]] | None:
    """Ours and the paper's numbers for one panel, with the remarks on them; None when the paper has none.

    A variant of a method that differs from the preset has no published counterpart, so it is left out.
    """
    rows: list[tuple[str | Cell, ...]] = []
    remarks: list[str] = []
    same_scale = panel.scale == "paper"
    titles = [group.title for group in panel.groups]
    for group in panel.groups:
        if titles.count(group.title) > 1 and any(s == "given" for n, s in group.sources.items() if "." in n):
            continue
        comparison = panel.comparison(group)
        for scenario, title in SCENARIOS.items():
            for metric in ("final_accuracy", "forgetting"):
                for number in find_published(group, panel, scenario, metric):
                    rows.append(_row(group, comparison, panel, scenario, title, metric, number, same_scale))
                    remarks += [f"{number.label}, {number.printed}: {note}" for note in number.notes]
    if not rows:
        return None
    columns = (
        "method", "metric", "published in", f"ours, {panel.scale} scale", "n", "the paper",
        "ours − paper", "our gain", "the paper's gain",
    )  # fmt: skip
    note = f"Ours was measured at {panel.scale} scale, the paper's at full scale: so no difference is given."
    table = Table(
        f"Ours beside the paper on {panel.title}",
        columns,
        tuple(rows),
        note="" if same_scale else note,
        name=f"paper-{panel.name}",
        text_columns=3,
    )
    return table, remarks


def _row(
    group: Group,
    comparison: Comparison | None,
    panel: Panel,
    scenario: str,
    title: str,
    metric: str,
    number: Published,
    same_scale: bool,
) -> tuple[str | Cell, ...]:
    ours = group.spread(scenario, metric)
    gap = ours.mean - number.mean
    gain = their_gain = "–"
    if comparison is not None:
        gain = show_difference(comparison.difference(scenario, metric))
        base = lookup(
            number.table,
            comparison.base.title,
            stream=panel.stream,
            buffer=panel.buffer,
            scenario=scenario,
            metric=metric,
        )
        if base is not None:
            their_gain = f"{number.mean - base.mean:+.2f}".replace("-", "−")
    return (
        group.label,
        f"{title} {METRICS[metric]}",
        number.label,
        show_spread(ours),
        str(ours.count),
        str(number),
        f"{gap:+.2f}".replace("-", "−") if same_scale and math.isfinite(gap) else Cell("–", "muted"),
        gain,
        their_gain,
    )


def against_paper(panels: Sequence[Panel]) -> Section | None:
    """Ours beside the published numbers, where there are any."""
    parts, notes = [], []
    for panel in panels:
        found = paper_table(panel)
        if found is not None:
            table, remarks = found
            parts.append(Part(panel.title, (table,)))
            notes += [remark for remark in remarks if remark not in notes]
    if not parts:
        return None
    return Section(
        "Beside the paper",
        text="Published numbers are those of the full protocol. A difference is given only where ours was measured at "
        "paper scale too; elsewhere the two stand side by side to compare the order of methods and the sign of gains, "
        "and are no reproduction.",
        parts=tuple(parts),
        notes=tuple(notes),
    )
