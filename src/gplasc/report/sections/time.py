"""Seconds of each phase, and what the plug-ins add."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Marked, Table
from gplasc.report.charts import Chart, Series
from gplasc.report.panels import ROWS, Panel
from gplasc.report.section import Block, Section
from gplasc.report.wording import say_values, show_spread
from gplasc.results.group import Group
from gplasc.results.statistics import Spread, spread


def time(panels: Sequence[Panel]) -> Section | None:
    """Seconds of each phase, and what the plug-ins add."""
    text = (
        "Mean over seeds. The ratio of training times compares runs of equal seed on the same device, processor and "
        "number of threads; machines that did other work at the same time disturb it."
    )
    return Section.of("Time", text, [(panel, _blocks(panel), "") for panel in panels])


def _blocks(panel: Panel) -> list[Block]:
    records = [record for group in panel.groups for record in group.records]
    names = list(dict.fromkeys(name for record in records for name in record.phase_seconds()))
    if not names:
        return []
    shown = panel.best(ROWS)
    series = tuple(
        Series(name, {g.labels["row"]: spread([_seconds(g, name).mean]) for g in shown}, index)
        for index, name in enumerate(names)
    )
    totals = [(g.labels["row"], sum(_seconds(g, name).mean for name in names)) for g in shown]
    words = f"Seconds in all: {say_values(totals)}."
    rows = []
    for group in panel.groups:
        base = panel.base(group)
        cost = _ratio(group, base) if base else spread([])
        ratio = f"× {show_spread(cost)}" if cost.count else Marked("–", "muted")
        rows.append([group.labels["row"], *(show_spread(_seconds(group, name)) for name in names), ratio])
    columns = ("method", *names, "training, plug-in to base")
    return [
        Chart("Seconds per run by phase", "", "seconds", series, words, "stack", name="time"),
        Table("Seconds per run, mean ± standard deviation", columns, rows, name="time"),
    ]


def _seconds(group: Group, phase: str) -> Spread:
    return spread([record.phase_seconds().get(phase, 0.0) for record in group.records])


def _ratio(group: Group, base: Group) -> Spread:
    """How many times as long training takes, for each seed that both have on the same machine."""
    ours, theirs = (
        {
            (r.seed, *(r.environment.get(name) for name in ("device", "processor", "threads"))): seconds
            for r in runs.records
            if (seconds := r.phase_seconds().get("train", 0.0)) > 0
        }
        for runs in (group, base)
    )
    return spread([ours[key] / theirs[key] for key in ours if key in theirs])
