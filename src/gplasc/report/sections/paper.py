"""Our numbers beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc._io.table import Column, Marked, Table
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.published import Published, lookup, tables
from gplasc.report.groups import METRICS, Comparison, Group, Panel
from gplasc.report.lines import panel_section
from gplasc.report.section import Section
from gplasc.report.wording import scale_note, show_difference, show_spread, signed


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


def published_gain(
    number: Published, comparison: Comparison, panel: Panel, scenario: str, metric: str
) -> float | None:
    """The published number minus that of the base in the same table; None where it has no base."""
    base = lookup(
        number.table,
        comparison.base.title,
        stream=panel.stream,
        buffer=panel.buffer,
        scenario=scenario,
        metric=metric,
    )
    return None if base is None else number.mean - base.mean


def _paper_table(panel: Panel) -> tuple[Table, list[str]] | None:
    """Ours and the paper's numbers for one panel, with the remarks on them; None when the paper has none.

    A variant of a method that differs from the preset has no published counterpart, so it is left out.
    """
    rows: list[tuple[str | Marked, ...]] = []
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
        "method", Column("metric", "left"), Column("published in", "left"), f"ours, {panel.scale} scale", "n",
        "the paper", "ours − paper", "our gain", "the paper's gain",
    )  # fmt: skip
    table = Table(
        "Ours beside the paper",
        columns,
        rows,
        notes=() if same_scale else (scale_note(panel.scale),),
        name="paper",
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
) -> tuple[str | Marked, ...]:
    ours = group.spread(scenario, metric)
    gap = ours.mean - number.mean
    gain = their_gain = "–"
    if comparison is not None:
        gain = show_difference(comparison.difference(scenario, metric))
        published = published_gain(number, comparison, panel, scenario, metric)
        their_gain = "–" if published is None else signed(published)
    return (
        group.label,
        f"{title} {METRICS[metric]}",
        number.label,
        show_spread(ours),
        str(ours.count),
        str(number),
        signed(gap) if same_scale and math.isfinite(gap) else Marked("–", "muted"),
        gain,
        their_gain,
    )


def against_paper(panels: Sequence[Panel]) -> Section | None:
    """Ours beside the published numbers, where there are any."""
    found = {id(panel): _paper_table(panel) for panel in panels}
    return panel_section(
        "Beside the paper",
        "Published numbers are those of the full protocol. A difference is given only where ours was measured at "
        "paper scale too; elsewhere the two stand side by side to compare the order of methods and the sign of gains, "
        "and are no reproduction.",
        panels,
        lambda panel: [pair[0]] if (pair := found[id(panel)]) else [],
        fold_above=math.inf,
        notes=[remark for pair in found.values() if pair for remark in pair[1]],
    )
