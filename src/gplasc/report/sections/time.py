"""Seconds per phase, and what the plug-ins add."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Marked, Table
from gplasc.report.charts import Chart, Series
from gplasc.report.groups import Group, Panel, phase_seconds
from gplasc.report.lines import ROWS, drawn_groups, panel_section
from gplasc.report.section import Block, Section
from gplasc.report.wording import known, say_values, show_spread
from gplasc.results.statistics import Spread, spread


def _seconds(group: Group, phase: str) -> Spread:
    return spread([phase_seconds(record).get(phase, 0.0) for record in group.records])


def time(panels: Sequence[Panel]) -> Section | None:
    """Seconds per phase, and what the plug-ins add."""
    text = (
        "Mean over seeds. The ratio of training times compares runs of equal seed on the same device, processor and "
        "number of threads; machines that did other work at the same time disturb it."
    )
    return panel_section("Time", text, panels, _blocks)


def _blocks(panel: Panel) -> list[Block]:
    names = list(dict.fromkeys(n for g in panel.groups for r in g.records for n in phase_seconds(r)))
    if not names:
        return []
    shown = drawn_groups(panel, ROWS)
    labels = tuple(g.label for g in shown)
    series = tuple(
        Series(name, labels, tuple(known(_seconds(g, name).mean) for g in shown), color=index)
        for index, name in enumerate(names)
    )
    totals = [sum(v or 0.0 for v in column) for column in zip(*(s.y for s in series), strict=True)]
    words = f"Seconds in all: {say_values(zip(labels, totals, strict=True))}."
    chart = Chart("Seconds per run by phase", "", "seconds", series, words, "stack", name="time")
    rows: list[list[str | Marked]] = []
    for group in panel.groups:
        comparison = panel.comparison(group)
        cost = comparison.overhead() if comparison else None
        tasks = max(len(group.first.get("timings") or []), 1)
        per_task = [phase_seconds(r).get("train", 0.0) / tasks for r in group.records]
        rows.append(
            [
                group.label,
                *(show_spread(_seconds(group, name)) for name in names),
                show_spread(spread(per_task)),
                f"× {show_spread(cost)}" if cost and cost.count else Marked("–", "muted"),
            ]
        )
    columns = ("method", *names, "training, per task", "training, plug-in to base")
    return [chart, Table("Seconds per run, mean ± standard deviation", columns, rows, name="time")]
