"""The sections of a page, what stands in them, and the one self-contained HTML page that they make."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gplasc
from gplasc._io.table import Table
from gplasc._io.text import printable
from gplasc.report import style
from gplasc.report.charts import Chart
from gplasc.report.heatmap import HeatMap
from gplasc.report.panels import Panel
from gplasc.report.sphere import Sphere
from gplasc.report.wording import file_name

if TYPE_CHECKING:
    from jinja2 import Environment

    from gplasc.report.findings import Finding

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


def render(
    title: str,
    lead: Sequence[str],
    sections: Sequence[Section],
    *,
    findings: Sequence[Finding] = (),
    warnings: Sequence[str] = (),
    subject: str = "",
) -> str:
    """Return the page as text; notes that repeat a warning and headings that repeat the subject are left out."""
    bodies = [[(part, _sort(part.blocks)) for part in section.all_parts()] for section in sections]
    template = _environment().get_template("page.html.jinja")
    return template.render(
        title=title,
        lead=lead,
        findings=findings,
        warnings=warnings,
        subject=subject,
        sections=list(zip(_anchors(sections), sections, bodies, strict=True)),
        version=gplasc.__version__,
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        spheres=any(blocks["Sphere"] for body in bodies for _, blocks in body),
    )


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("gplasc.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names of files need not be UTF-8; Markup is made of parts that are printable already.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters["in_page"] = style.in_page
    environment.filters["paragraphs"] = lambda text: [p for p in text.split("\n\n") if p.strip()]
    environment.globals |= {"zip": zip, "merged": _merged_swatches}
    return environment


def _sort(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """Return the blocks by the name of their type."""
    kinds = (Table, Chart, Sphere, HeatMap)
    return {kind.__name__: [block for block in blocks if isinstance(block, kind)] for kind in kinds}


def _merged_swatches(blocks: Sequence[Chart | Sphere]) -> dict[str, tuple[str, str]]:
    """Return the legend that serves several figures."""
    return {name: swatch for block in blocks for name, swatch in block.swatches().items()}


def _anchors(sections: Sequence[Section]) -> list[str]:
    """A different target of links for each section; where titles repeat, the later ones are numbered."""
    names = [file_name(section.title) or "section" for section in sections]
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name}-{count}" for name, count in zip(names, counts, strict=True)]
