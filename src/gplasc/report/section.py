"""The parts of a report page."""

from __future__ import annotations

from dataclasses import dataclass

from gplasc.report.chart import Chart, HeatMap, Picture, Plot
from gplasc.report.table import Table
from gplasc.report.wording import file_name

Block = Chart | HeatMap | Plot | Picture | Table


@dataclass(frozen=True)
class Part:
    """Blocks under a heading of their own inside a section; `folded` ones open on demand."""

    title: str
    blocks: tuple[Block, ...]
    text: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """A heading, plain text (blank lines part paragraphs), figures and tables, and further parts."""

    title: str
    blocks: tuple[Block, ...] = ()
    text: str = ""
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """The heading as the target of a link."""
        return file_name(self.title) or "section"

    def all_blocks(self) -> list[Block]:
        """Every figure and table, those of the parts too."""
        return [*self.blocks, *(block for part in self.parts for block in part.blocks)]
