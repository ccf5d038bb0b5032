"""The sections of a report page and what stands in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from gplasc.report.wording import file_name


class Block(Protocol):
    """A figure or table: it has a heading, writes itself into a page, and, where it has a name, to files."""

    @property
    def title(self) -> str:
        """Heading."""

    @property
    def name(self) -> str:
        """Stem of its files; "" if it is only in the page."""

    def to_html(self) -> str:
        """Return its element of the page."""

    def write(self, stem: Path) -> list[Path]:
        """Write its files and return their paths."""


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

    @property
    def anchor(self) -> str:
        """The heading as the target of a link."""
        return file_name(self.title) or "section"

    def without_heading(self, title: str) -> Section:
        """Return the section without this heading of unfolded subsections."""
        parts = (replace(p, title="") if p.title == title and not p.folded else p for p in self.parts)
        return replace(self, parts=tuple(parts))

    def all_parts(self) -> tuple[Subsection, ...]:
        """The section's own blocks as a first subsection without a heading, then its subsections."""
        return (Subsection("", self.blocks), *self.parts)

    def all_blocks(self) -> list[Block]:
        """Every figure and table."""
        return [block for part in self.all_parts() for block in part.blocks]
