"""The settings of the runs, and where each comes from."""

from __future__ import annotations

from collections.abc import Sequence, Set

from gplasc._io.table import Column, Table
from gplasc.report.panels import Panel, varying_settings
from gplasc.report.section import Section, Subsection
from gplasc.report.wording import show_value
from gplasc.results.group import Group


def settings(panels: Sequence[Panel]) -> Section:
    """The settings that all runs share, and the other settings of each group."""
    groups = [group for panel in panels for group in panel.groups]
    differing = set(varying_settings(groups))
    shared = _table("Settings shared by all runs", groups[0], groups[0].settings.keys() - differing)
    parts = [Subsection("Shared by all runs", (shared,), folded=True)] if shared.rows else []
    if len(groups) > 1:
        for panel in panels:
            tables = tuple(_table(group.labels["row"], group, differing) for group in panel.groups)
            parts.append(Subsection(panel.title, tables, folded=True))
    seeds = sorted({record.seed for group in groups for record in group.records})
    listed = ", ".join(map(str, seeds[:20])) + " and more" * (len(seeds) > 20)
    text = f"Seeds: {listed}. The last column names the preset a value comes from, or says that it was given."
    return Section("Settings", parts=tuple(parts), text=text)


def _table(title: str, group: Group, names: Set[str]) -> Table:
    sources = group.first.sources
    rows = [(n, show_value(v), sources.get(n, "")) for n, v in group.settings.items() if n in names]
    return Table(title, ("setting", Column("value", "left"), Column("from", "left")), rows)
