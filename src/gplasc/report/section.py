"""The sections of a report page and what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gplasc._io.table import Table
from gplasc.report.charts import Chart
from gplasc.report.heatmap import HeatMap
from gplasc.report.panels import Panel
from gplasc.report.sphere import Sphere

Block = Table | Chart | HeatMap | Sphere
"""A figure or table: it has a title, writes itself into a page, and, where it has a name, to files."""


@dataclass(frozen=True)
class Section:
    """A heading, plain text (blank lines part paragraphs), blocks, sections inside it, and notes."""

    title: str
    blocks: tuple[Block, ...] = ()
    text: str = ""
    parts: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    folded: bool = False  # opens on demand
    folder: str = ""  # where its files are written, below the folder that the user names

    @classmethod
    def of(
        cls,
        title: str,
        text: str,
        parts: Sequence[tuple[Panel, Sequence[Block], str]],
        *,
        fold_above: float = 4,
        notes: Sequence[str] = (),
    ) -> Section | None:
        """Build a section with a part for each panel that has blocks, and a remark on it; None without any.

        Charts without numbers are left out. With more panels than `fold_above` their parts are folded.
        """
        folded = len(parts) > fold_above
        shown = []
        for panel, blocks, remark in parts:
            kept = tuple(block for block in blocks if not isinstance(block, Chart) or block.drawable)
            if kept:
                shown.append(cls(panel.title, kept, remark, folded=folded, folder=panel.name))
        return cls(title, (), text, tuple(shown), tuple(dict.fromkeys(notes))) if shown else None

    def all_parts(self) -> tuple[Section, ...]:
        """The section's own blocks as a first part without a heading, then its parts."""
        return (Section("", self.blocks), *self.parts)
