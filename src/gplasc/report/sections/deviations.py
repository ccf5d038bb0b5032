"""Where methods and plug-ins depart from their papers."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Column, Table
from gplasc.report.panels import Panel
from gplasc.report.section import Section


def deviations(panels: Sequence[Panel]) -> Section | None:
    """Where methods and plug-ins depart from their papers."""
    texts: dict[tuple[str, str], None] = {}
    for group in (group for panel in panels for group in panel.groups):
        for name, departures in group.first.deviations.items():
            texts |= dict.fromkeys((name, text) for text in departures)
    rows = sorted(texts, key=lambda row: row[0])
    columns = ("method", Column("departure", "left"))
    table = Table("Departures from papers and official code", columns, rows)
    text = "What these methods do otherwise than their papers or official code, and why."
    return Section("Deviations", (table,), text) if rows else None
