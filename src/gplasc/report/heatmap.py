"""Matrices as tables of colored cells: they can be read aloud, printed and copied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gplasc._io.text import printable
from gplasc.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Grid = NDArray[np.float64]
_SHADES = ("#D38658", "#FFFFFF", "#5E9EC9")  # --cool and --heat of the page at 72 %


@dataclass(frozen=True)
class HeatMap:
    """A matrix with a color for every cell, from orange (below 0) through none (0) to blue (above 0)."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: _Grid  # the numbers to read, a row for each name; NaN leaves a cell empty
    shades: _Grid | None = None  # what the color shows; None: the values themselves
    corner: str = ""  # what rows and columns are
    top: float = 1.0  # the size of a shade with full color
    digits: int = 1
    name: str = ""  # stem of the file when the figure is written to disk

    def cells(self) -> list[list[tuple[str, float]]]:
        """Return text and shade, from -1 to 1, of every cell; the text is "" where there is no number."""
        shades = self.values if self.shades is None else self.shades
        strengths = np.nan_to_num(shades / self.top).clip(-1, 1)
        texts = [
            [f"{x:.{self.digits}f}".replace("-", "−") if math.isfinite(x) else "" for x in row]
            for row in self.values
        ]
        return [
            [(text, strength if text else 0.0) for text, strength in zip(*row, strict=True)]
            for row in zip(texts, strengths.tolist(), strict=True)
        ]

    def write(self, stem: Path) -> list[Path]:
        """Write SVG and PDF files and return their paths."""
        return write_maps([self], stem, (".svg", ".pdf"))

    def draw(self, axes: Axes) -> None:
        """Draw the cells into axes of matplotlib."""
        from matplotlib.colors import LinearSegmentedColormap

        cells = self.cells()
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


def write_maps(maps: Sequence[HeatMap], stem: Path, suffixes: tuple[str, ...], note: str = "") -> list[Path]:
    """Write heat maps side by side as one figure, with a note below, and return the paths."""
    with style.paper_style():
        from matplotlib.figure import Figure

        widths = [0.5 * len(heat.columns) + 1.2 for heat in maps]
        height = max(0.24 * len(heat.rows) + 0.6 for heat in maps)
        figure = Figure((sum(widths), height), layout="constrained")
        axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
        for own, heat in zip(axes, maps, strict=True):
            heat.draw(own)
        return style.save_figure(figure, stem, suffixes, note=note)
