"""Seconds per phase, and what the plug-ins add."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc.report.chart import Chart, Series
from gplasc.report.groups import Group, Panel, phase_seconds
from gplasc.report.lines import ROWS, drawn_groups, folded
from gplasc.report.section import Section, Subsection
from gplasc.report.wording import known, say_values, show_spread
from gplasc.results.aggregate import Spread, spread
from gplasc.results.table import Marked, Table


def _seconds(group: Group, phase: str) -> Spread:
    return spread([phase_seconds(record).get(phase, 0.0) for record in group.records])


def time(panels: Sequence[Panel]) -> Section | None:
    """Seconds per phase, and what the plug-ins add."""
    parts = []
    for panel in panels:
        names = list(dict.fromkeys(n for g in panel.groups for r in g.records for n in phase_seconds(r)))
        if not names:
            continue
        shown = drawn_groups(panel, ROWS)
        labels = tuple(g.label for g in shown)
        rows = []
        series = tuple(
            Series(name, labels, tuple(known(_seconds(g, name).mean) for g in shown), color=index)
            for index, name in enumerate(names)
        )
        for group in panel.groups:
            comparison = panel.comparison(group)
            cost = comparison.overhead() if comparison else None
            per_task = [
                phase_seconds(r).get("train", 0.0) / max(len(r.get("timings") or []), 1)
                for r in group.records
            ]
            rows.append(
                (
                    group.label,
                    *(show_spread(_seconds(group, name)) for name in names),
                    show_spread(spread(per_task)),
                    f"× {show_spread(cost)}" if cost and cost.count else Marked("–", "muted"),
                )
            )
        totals = [sum(v or 0.0 for v in column) for column in zip(*(s.y for s in series), strict=True)]
        chart = Chart(
            "Seconds per run by phase",
            "",
            "seconds",
            series,
            f"Seconds in all: {say_values(zip(labels, totals, strict=True))}.",
            kind="stack",
            name="time",
        )
        table = Table(
            "Seconds per run, mean ± standard deviation",
            ("method", *names, "training, per task", "training, plug-in to base"),
            rows,
            name="time",
        )
        parts.append(Subsection(panel.title, (chart, table), folded=folded(panels), folder=panel.name))
    if not parts:
        return None
    return Section(
        "Time",
        text="Mean over seeds. The ratio of training times compares runs of equal seed on the same device, processor "
        "and number of threads; machines that did other work at the same time disturb it.",
        parts=tuple(parts),
    )
