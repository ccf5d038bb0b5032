"""A matplotlib figure as part of the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gplasc._io.table import html_text
from gplasc.report import style


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, set into the page as SVG with its own fonts.

    Args:
        title: Heading.
        figure: The figure.
        alt: What it shows, in words.
        name: Stem of the file when it is written to disk.
    """

    title: str
    figure: Any
    alt: str
    name: str = ""

    def to_html(self) -> str:
        """Return a figure element."""
        out = io.BytesIO()
        with style.paper_style():
            self.figure.savefig(
                out, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None}
            )
        address = "data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode()
        title, words = html_text(self.title), html_text(self.alt)
        return (
            f'<figure class="card"><p class="title">{title}</p><img src="{address}" alt="{words}">'
            f"<figcaption>{words}</figcaption></figure>\n"
        )

    def write(self, stem: Path) -> list[Path]:
        """Write SVG and PDF files and return their paths."""
        with style.paper_style():
            return style.save_figure(self.figure, stem, (".svg", ".pdf"))
