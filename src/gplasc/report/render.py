"""From sections to one self-contained HTML page."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gplasc
from gplasc._io.table import Table
from gplasc._io.text import html_text, printable
from gplasc.report.charts import Chart, legend, share_legend
from gplasc.report.heatmap import HeatMap
from gplasc.report.section import Block, Section


@dataclass(frozen=True)
class Finding:
    """One answer of the first screen: a number, what it is, how sure it is, and what the paper says."""

    value: str
    what: str
    where: str
    sure: str
    paper: str = ""
    tone: Literal["", "better", "worse"] = ""


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

    Raises:
        UserError: If jinja2 is missing.
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
        spheres=any("<canvas" in body for parts in bodies for _, body in parts),
    )


def _blocks(blocks: Sequence[Block], warnings: Sequence[str]) -> str:
    """Tables first, then charts in a grid, other figures in one of their own, and heat maps side by side."""
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
    shared = legend(lines) if len(lines) > 1 and share_legend(lines) else ""
    drawn = "".join(chart.to_html(own_legend=not shared or chart.kind != "line") for chart in charts)
    others = "".join(b.to_html() for b in blocks if not isinstance(b, (Table, Chart, HeatMap)))
    maps = "".join(block.to_html() for block in blocks if isinstance(block, HeatMap))
    for kind, inside in (("grid", shared + drawn), ("grid", others), ("maps", maps)):
        text += f'<div class="{kind}">{inside}</div>\n' if inside else ""
    return text


def _anchors(sections: Sequence[Section]) -> list[str]:
    """A different target of links for each section, also where titles repeat."""
    taken: dict[str, int] = {}
    result = []
    for section in sections:
        taken[section.anchor] = number = taken.get(section.anchor, 0) + 1
        result.append(section.anchor if number == 1 else f"{section.anchor}-{number}")
    return result


def script_json(value: Any) -> str:
    r"""Return JSON that may stand inside a script element: nothing in it can end the element.

    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
