"""A small vector drawing: lines, areas, marks and text, written as SVG for the page and as SVG and PDF on disk."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal

from gplasc._io.files import write_atomic
from gplasc._io.table import html_text, printable
from gplasc.report import style

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]
MARKS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m-3.5-3.5h7v7h-7z", "m0-4.6l4.3 8h-8.6z", "m0-5l5 5-5 5-5-5z",
    "m0 4.6l4.3-8h-8.6z", "m-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z", "m-4-2l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",
    "m0-5l1.4 3.4 3.6.1-2.8 2.3.9 3.6-3.1-2-3.1 2 .9-3.6-2.8-2.3 3.6-.1z",
)  # fmt: skip
"""The marks of `style.MARKERS` as relative SVG paths from their middle."""


@dataclass(frozen=True)
class _Shape:
    kind: Literal["line", "area", "marks", "text"]
    points: Sequence[Point]
    color: str
    series: str
    width: float = 1.0
    dashed: bool = False
    strength: float = 1.0
    mark: int = 0
    hollow: bool = False
    text: str = ""
    anchor: Anchor = "start"


@dataclass
class Drawing:
    """Shapes in the order in which they are drawn; lengths in pixels, y downward, colors by their name in `style`.

    Shapes that are drawn while `series` is set belong to that series, which the page's legend can hide.
    """

    width: float
    height: float = 0.0
    series: str = ""
    _shapes: list[_Shape] = field(default_factory=list)

    def line(self, points: Sequence[Point], color: str, width: float = 1.0, *, dashed: bool = False) -> None:
        """Draw a line through the points."""
        self._shapes.append(_Shape("line", points, color, self.series, width, dashed))

    def area(
        self, x: float, y: float, width: float, height: float, color: str, strength: float = 1.0
    ) -> None:
        """Fill a rectangle; `strength` is its opacity."""
        corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
        self._shapes.append(_Shape("area", corners, color, self.series, strength=strength))

    def marks(self, points: Sequence[Point], color: str, mark: int, *, hollow: bool = False) -> None:
        """Draw the mark number `mark` of `style.MARKERS` at each point."""
        self._shapes.append(_Shape("marks", points, color, self.series, 1.6, mark=mark, hollow=hollow))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: Anchor = "start",
        color: str = "ink",
        size: float = 12.5,
    ) -> None:
        """Write one line of text on the base line y."""
        shape = _Shape("text", ((x, y),), color, self.series, size, text=printable(text), anchor=anchor)
        self._shapes.append(shape)

    def to_svg(self, label: str = "", *, inline: bool = True) -> str:
        """Return an SVG element.

        Args:
            label: What the drawing shows, in words; "" for decoration.
            inline: Whether colors are the page's variables, which follow its theme, or values for a file of its own.
        """
        told = f'role="img" aria-label="{html.escape(label)}"' if label else 'aria-hidden="true"'
        size = f"{self.width:g} {self.height:g}"
        body = ""
        for series, shapes in groupby(self._shapes, key=lambda shape: shape.series):
            drawn = "".join(_svg(shape, inline) for shape in shapes)
            name = html_text(series)
            body += f'<g data-series="{name}"><title>{name}</title>{drawn}</g>' if series else drawn
        if inline:
            return f'<svg viewBox="0 0 {size}" {told}>{body}</svg>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:g}" '
            f'viewBox="0 0 {size}" font-family="DejaVu Sans, Arial, sans-serif" {told}>'
            f'<path fill="{style.PAPER}" d="M0 0H{self.width:g}V{self.height:g}H0z"/>{body}</svg>\n'
        )

    def write(self, stem: Path, label: str = "") -> list[Path]:
        """Write an SVG and a PDF file beside each other and return their paths."""
        path = stem.with_name(stem.name + ".svg")
        return [write_atomic(path, self.to_svg(label, inline=False)), *self._write_pdf(stem)]

    def _write_pdf(self, stem: Path) -> list[Path]:
        with style.paper_style():
            from matplotlib.figure import Figure

            figure = Figure(figsize=(self.width / 100, self.height / 100))
            axes = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0))
            axes.set_axis_off()
            anchors = {"start": "left", "middle": "center", "end": "right"}
            for order, shape in enumerate(self._shapes):
                color, x, y = style.COLORS[shape.color], *zip(*shape.points, strict=True)
                points = 0.72 * shape.width  # a pixel is 1/100 inch here
                if shape.kind == "area":
                    axes.fill(x, y, color=color, alpha=shape.strength, linewidth=0, zorder=order)
                elif shape.kind == "text":
                    text = shape.text.replace("$", r"\$")
                    axes.text(
                        x[0],
                        y[0],
                        text,
                        color=color,
                        fontsize=0.92 * points,
                        ha=anchors[shape.anchor],
                        zorder=order,
                    )
                elif shape.kind == "line":
                    dashes = "--" if shape.dashed else "-"
                    axes.plot(x, y, color=color, linewidth=points, linestyle=dashes, zorder=order)
                else:
                    axes.plot(
                        x,
                        y,
                        linestyle="none",
                        marker=style.MARKERS[shape.mark],
                        markersize=5.5,
                        color=color,
                        markerfacecolor=style.PAPER if shape.hollow else color,
                        zorder=order,
                    )
            return style.save_figure(figure, stem, (".pdf",))


def _svg(shape: _Shape, inline: bool) -> str:
    color = f"var(--{shape.color})" if inline else style.COLORS[shape.color]
    points = [(f"{x:.1f}".removesuffix(".0"), f"{y:.1f}".removesuffix(".0")) for x, y in shape.points]
    if shape.kind == "text":
        x, y = points[0]
        anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        place = f'x="{x}" y="{y}" fill="{color}" font-size="{shape.width:g}"'
        return f"<text {place}{anchor}>{html.escape(shape.text)}</text>"
    if shape.kind == "marks":
        path = "".join(f"M{x} {y}{MARKS[shape.mark]}" for x, y in points)
        fill = color if not shape.hollow else "var(--card)" if inline else style.PAPER
        return f'<path fill="{fill}" stroke="{color}" stroke-width="{shape.width}" d="{path}"/>'
    path = "M" + "L".join(f"{x} {y}" for x, y in points)
    if shape.kind == "area":
        opacity = f' fill-opacity="{shape.strength:.2g}"' if shape.strength < 1 else ""
        return f'<path fill="{color}"{opacity} d="{path}z"/>'
    dash = ' stroke-dasharray="5 3"' if shape.dashed else ""
    return f'<path fill="none" stroke="{color}" stroke-width="{shape.width:g}"{dash} d="{path}"/>'
