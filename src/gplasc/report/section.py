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
class Subsection:
    """Blocks under a heading of their own inside a section; `folded` ones open on demand.

    `folder` is where its files are written, below the folder that the user names.
    """

    title: str
    blocks: tuple[Block, ...]
    text: str = ""
    folded: bool = False
    folder: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, plain text (blank lines part paragraphs), blocks, subsections and notes."""

    title: str
    blocks: tuple[Block, ...] = ()
    text: str = ""
    parts: tuple[Subsection, ...] = ()
    notes: tuple[str, ...] = ()

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
        """Build a section with a subsection for each panel that has blocks; None without any.

        Args:
            title: Heading.
            text: Explanation.
            parts: For each panel its blocks and a remark.
            fold_above: With more panels than this their subsections are folded.
            notes: Notes of the section; repeated ones are left out.
        """
        folded = len(parts) > fold_above
        shown = [
            Subsection(panel.title, tuple(blocks), remark, folded, panel.name)
            for panel, blocks, remark in parts
            if blocks
        ]
        return cls(title, (), text, tuple(shown), tuple(dict.fromkeys(notes))) if shown else None

    def all_parts(self) -> tuple[Subsection, ...]:
        """The section's own blocks as a first subsection without a heading, then its subsections."""
        return (Subsection("", self.blocks), *self.parts)

    def all_blocks(self) -> list[Block]:
        """Every figure and table."""
        return [block for part in self.all_parts() for block in part.blocks]
