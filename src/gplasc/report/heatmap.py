"""Matrices as tables of colored cells: they can be read aloud, printed and copied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from gplasc._io.text import html_text, printable
from gplasc.report import style

_Grid = tuple[tuple[float | None, ...], ...]
_SHADES = ("#D38658", "#FFFFFF", "#5E9EC9")  # --cool and --heat of the page at 72 %


@dataclass(frozen=True)
class HeatMap:
    """A matrix with a color for every cell, from orange (below 0) through none (0) to blue (above 0).

    Args:
        title: Heading.
        rows: Names of the rows.
        columns: Names of the columns.
        values: The numbers to read, a row for each name; None leaves a cell empty.
        shades: What the color shows, of the same shape; None: the values themselves.
        corner: What rows and columns are.
        top: The size of a shade with full color.
        digits: Decimals of the numbers.
        name: Stem of the file when the figure is written to disk.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: _Grid
    shades: _Grid | None = None
    corner: str = ""
    top: float = 1.0
    digits: int = 1
    name: str = ""

    def cells(self) -> list[list[tuple[str, float]]]:
        """Return text and shade, from -1 to 1, of every cell; the text is "" where there is no number."""
        return [
            [self._cell(value, shade) for value, shade in zip(values, shades, strict=True)]
            for values, shades in zip(self.values, self.shades or self.values, strict=True)
        ]

    def _cell(self, value: float | None, shade: float | None) -> tuple[str, float]:
        if value is None or not math.isfinite(value):
            return "", 0.0
        strength = shade / self.top if shade is not None and math.isfinite(shade) else 0.0
        return f"{value:.{self.digits}f}".replace("-", "−"), max(-1.0, min(1.0, strength))

    def to_html(self) -> str:
        """Return a table whose cells carry their shade as a variable for the page's style sheet."""
        title, corner = html_text(self.title), html_text(self.corner)
        head = "".join(f'<th scope="col">{html_text(name)}</th>' for name in self.columns)
        body = ""
        for name, row in zip(self.rows, self.cells(), strict=True):
            body += f'<tr><th scope="row">{html_text(name)}</th>'
            for text, shade in row:
                sign = ' class="n"' if shade < 0 else ""
                body += f'<td{sign} style="--v:{abs(shade):.2g}">{text}</td>' if text else "<td></td>"
            body += "</tr>\n"
        return (
            f'<div class="scroll heat" tabindex="0" role="region" aria-label="{title}">'
            f'<table><caption>{title}</caption><thead><tr><th scope="col">{corner}</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>\n"
        )

    def write(self, stem: Path) -> list[Path]:
        """Write SVG and PDF files and return their paths."""
        with style.paper_style({"text.parse_math": False}):
            from matplotlib.colors import LinearSegmentedColormap
            from matplotlib.figure import Figure

            cells = self.cells()
            size = (0.5 * len(self.columns) + 1.2, 0.24 * len(self.rows) + 0.6)
            figure = Figure(size, layout="constrained")
            axes = figure.subplots()
            shades = [[shade for _, shade in row] for row in cells]
            colors = LinearSegmentedColormap.from_list("", _SHADES)
            axes.pcolormesh(shades, cmap=colors, vmin=-1, vmax=1, edgecolors="white")
            for y, row in enumerate(cells):
                for x, (text, _) in enumerate(row):
                    axes.text(x + 0.5, y + 0.5, text, ha="center", va="center")
            axes.set_xticks([x + 0.5 for x in range(len(self.columns))], map(printable, self.columns))
            axes.set_yticks([y + 0.5 for y in range(len(self.rows))], map(printable, self.rows))
            axes.tick_params(length=0, labeltop=True, labelbottom=False)
            axes.set(title=printable(self.title), ylabel=self.corner)
            axes.grid(visible=False)
            axes.invert_yaxis()
            axes.spines[:].set_visible(False)
            return style.save_figure(figure, stem, (".svg", ".pdf"))
