"""From sections to one self-contained HTML page."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

import gplasc
from gplasc._io.table import Table
from gplasc._io.text import html_text, printable
from gplasc.report.charts import Chart, legend
from gplasc.report.heatmap import HeatMap
from gplasc.report.section import Block, Section
from gplasc.report.sphere import Sphere
from gplasc.report.wording import file_name

if TYPE_CHECKING:
    from gplasc.report.findings import Finding


def render(
    title: str,
    lead: Sequence[str],
    sections: Sequence[Section],
    *,
    findings: Sequence[Finding] = (),
    warnings: Sequence[str] = (),
) -> str:
    """Return the page as text.

    Args:
        title: Heading of the page.
        lead: Paragraphs below it.
        sections: What follows, in order.
        findings: Answers for the first screen.
        warnings: What a reader must know before any number; notes of tables that repeat one are left out.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("gplasc.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names of files need not be UTF-8; Markup is made of parts that are printable already.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["paragraphs"] = lambda text: [p for p in text.split("\n\n") if p.strip()]
    bodies = [
        [(part, Markup(_blocks(part.blocks, warnings))) for part in section.all_parts()]
        for section in sections
    ]
    return environment.get_template("page.html.jinja").render(
        title=title,
        lead=lead,
        findings=findings,
        warnings=warnings,
        sections=list(zip(_anchors(sections), sections, bodies, strict=True)),
        version=gplasc.__version__,
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        spheres=any(isinstance(block, Sphere) for section in sections for block in section.all_blocks()),
    )


def _blocks(blocks: Sequence[Block], warnings: Sequence[str]) -> str:
    """Tables first, then charts in a grid, spheres in one of their own, and heat maps side by side."""
    text = ""
    for table in blocks:
        if isinstance(table, Table):
            stacks = " stack" if len(table.columns) > 3 else ""
            label = html_text(table.title)
            text += f'<div class="scroll{stacks}" tabindex="0" role="region" aria-label="{label}">'
            text += f"{table.to_html()}</div>\n"
            notes = [html_text(note) for note in table.notes if note not in warnings]
            text += "".join(f'<p class="note">{note}</p>\n' for note in notes)
    charts = [block for block in blocks if isinstance(block, Chart)]
    lines = [chart for chart in charts if chart.kind == "line"]
    shared = legend({k: v for chart in lines for k, v in chart.swatches().items()}) if len(lines) > 1 else ""
    drawn = "".join(chart.to_html(own_legend=not shared or chart.kind != "line") for chart in charts)
    spheres = [block for block in blocks if isinstance(block, Sphere)]
    same = len(spheres) > 1 and all(sphere.swatches() == spheres[0].swatches() for sphere in spheres)
    common = legend(spheres[0].swatches()) if same else ""
    balls = "".join(sphere.to_html(own_legend=not common) for sphere in spheres)
    maps = "".join(block.to_html() for block in blocks if isinstance(block, HeatMap))
    for kind, inside in (("grid", shared + drawn), ("grid balls", common + balls), ("maps", maps)):
        text += f'<div class="{kind}">{inside}</div>\n' if inside else ""
    return text


def _anchors(sections: Sequence[Section]) -> list[str]:
    """A different target of links for each section; where titles repeat, the later ones are numbered."""
    names = [file_name(section.title) or "section" for section in sections]
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name}-{count}" for name, count in zip(names, counts, strict=True)]
