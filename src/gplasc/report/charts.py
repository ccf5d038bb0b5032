"""Charts by matplotlib: lines over tasks or settings, intervals and stacked bars, for the page and for files."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gplasc._io.table import Table
from gplasc._io.text import html_text, printable
from gplasc.report import style
from gplasc.results.statistics import Difference, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GLYPHS = dict(
    zip(style.MARKERS, ("●○", "■□", "▲△", "◆◇", "▼▽", "✚✛", "✖✕", "★☆"), strict=True)
)  # full, hollow
_WIDTH = 380.0  # pixels; all lengths are, because figures are drawn with 72 dots per inch
_NAME_LENGTH = 52  # letters of a row's name; longer ones are cut, the table below the chart has all


@dataclass(frozen=True)
class Series:
    """One line, or the marks or bars of one color: at each place a mean with the ends of its error bar.

    Means that are not finite are left out. Color and marker come from `color`; a hollow series (a base) is
    dashed with open markers; the points of a series that is not joined have no line through them.
    """

    name: str
    values: Mapping[Any, Spread | Difference]  # by place
    color: int = 0
    hollow: bool = False
    joined: bool = True

    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return the places, means and both ends of the error bars (NaN without one) of all finite means."""
        points = [(x, v.mean, v.low, v.high) for x, v in self.values.items() if math.isfinite(v.mean)]
        return tuple(zip(*points, strict=True)) if points else ((), (), (), ())

    def look(self) -> dict[str, Any]:
        """Return arguments of matplotlib's `plot` for the line and its markers."""
        shade = style.color(self.color)
        return {
            # matplotlib's legend leaves out names that begin with an underscore.
            "label": printable(f" {self.name}" if self.name.startswith("_") else self.name),
            "color": shade,
            "marker": style.marker(self.color),
            "markersize": 7,
            "markerfacecolor": style.PAPER if self.hollow else shade,
            "markeredgewidth": 1.4,
            "linewidth": 2,
            "linestyle": "none" if not self.joined else (0, (2.5, 1.5)) if self.hollow else "-",
        }


@dataclass(frozen=True)
class Chart:
    """A figure of series."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    summary: str  # what the figure says, in words, for those who cannot see it
    kind: Literal["line", "interval", "stack"] = "line"  # the last two have a row for each place
    guides: Mapping[float, str] = field(default_factory=dict)  # lines at values, with a label or ""
    log_x: bool = False
    zero_based: bool = False  # readers expect the axis to start at 0; its label says where it starts instead
    name: str = ""  # stem of the file when the figure is written to disk

    @property
    def drawable(self) -> bool:
        """Whether there is any number to draw."""
        return any(series.columns()[0] for series in self.series)

    def swatches(self) -> dict[str, tuple[str, str]]:
        """Return the entries of the legend: the marker of each series, of bars a square, and its color."""
        bars = self.kind == "stack"
        glyphs = ["■" if bars else _GLYPHS[style.marker(s.color)][s.hollow] for s in self.series]
        return {s.name: (glyph, style.color(s.color)) for s, glyph in zip(self.series, glyphs, strict=True)}

    def table(self) -> Table:
        """Return the numbers of the figure."""
        rows = []
        for place in self._places():
            name = f"{place:g}" if isinstance(place, int | float) else place
            rows.append([name, *(_number(series.values.get(place)) for series in self.series)])
        head = (self.x_label or "row", *(s.name for s in self.series))
        return Table(f"{self.title}: {self.y_label}", head, rows)

    def write(self, stem: Path) -> list[Path]:
        """Write SVG and PDF files, with title and legend inside, and return their paths."""
        return write_charts([self], stem, (".svg", ".pdf"), columns=1)

    def to_svg(self) -> str:
        """Return the drawing without title and legend, as an SVG element in the colors of the page."""
        identity = hashlib.sha256(repr(self).encode("utf-8", "backslashreplace")).hexdigest()
        out = io.StringIO()
        salt = {"svg.hashsalt": identity}  # ids differ from those of other charts
        with style.paper_style(style.PAGE, salt):
            _figure([self], columns=1, titles=False).savefig(out, format="svg", metadata=style.NO_METADATA)
        names = [series.name for series in self.series]
        return _inline(out.getvalue(), f'role="img" aria-label="{html_text(self.title)}"', names)

    def _places(self) -> list[float | str]:
        return list(dict.fromkeys(x for series in self.series for x in series.values))

    def _height(self, *, titles: bool) -> float:
        title = 22.0 + 20.0 * len(self.series) * (len(self.series) > 1) if titles else 0.0
        return title + (256 if self.kind == "line" else 44 + self._step() * len(self._places()))

    def _step(self) -> float:
        """Height of a row: its name, which may be long and stands above the marks, and the marks."""
        return 24.0 + (12 * max(len(self.series), 1) if self.kind == "interval" else 18)

    def _draw(self, axes: Axes, *, title: bool) -> None:
        """Draw into the axes, with title and legend or without."""
        heads = [printable(self.title)] if title else []
        if self.kind == "line":
            heads.append(self._draw_lines(axes))
        else:
            self._draw_rows(axes)
        axes.set_title("\n".join(heads), loc="left", color=style.INK if title else style.SOFT)
        axes.tick_params(left=False, bottom=False, labelcolor=style.SOFT)
        axes.spines[:].set_visible(False)
        if title and len(self.series) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=4.2)

    def _draw_lines(self, axes: Axes) -> str:
        """Draw lines over places and return the label of the values."""
        from matplotlib.ticker import MaxNLocator

        places = self._places()
        words = any(isinstance(place, str) for place in places)
        for index, series in enumerate(self.series):
            x, y, low, high = series.columns()
            x = [places.index(place) for place in x] if words else x
            gid = f"series-{index}"
            axes.vlines(x, low, high, color=style.color(series.color), linewidth=1.2, gid=gid, clip_on=False)
            axes.plot(x, y, gid=gid, clip_on=False, **series.look())
        if words:
            axes.set_xticks(range(len(places)), [printable(str(place)) for place in places])
        elif self.log_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
        else:
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=all(float(p).is_integer() for p in places)))
        for value, label in self.guides.items():
            axes.axhline(value, color=style.STRUCTURE, linewidth=1.3, linestyle=(0, (4, 2.5)))
            axes.annotate(
                label, (1, value), (0, 4), xycoords=("axes fraction", "data"), ha="right",
                textcoords="offset points", color=style.STRUCTURE, backgroundcolor=style.PAPER + "D9", zorder=1.5,
            )  # fmt: skip
        axes.grid(axis="x", visible=False)
        axes.set_xlabel(printable(self.x_label), color=style.SOFT)
        bottom = axes.get_ylim()[0]
        if not self.zero_based or bottom <= 0:
            return printable(self.y_label)
        ticks = axes.get_yticks()
        start = max((tick for tick in ticks if tick <= bottom), default=bottom)
        axes.set_yticks([tick for tick in ticks if start <= tick <= axes.get_ylim()[1]])
        axes.set_ylim(bottom=start)
        return f"{printable(self.y_label)}; axis starts at {start:g}" if start else printable(self.y_label)

    def _draw_rows(self, axes: Axes) -> None:
        """Draw a row for each place, values along the horizontal axis; one unit of the other axis is a pixel."""
        places, step = self._places(), self._step()
        ends = dict.fromkeys(places, 0.0)
        for index, series in enumerate(self.series):
            own: dict[str, Any] = {"gid": f"series-{index}", "clip_on": False}
            x, y, low, high = series.columns()
            tops = [step * places.index(place) + 30 for place in x]
            if self.kind == "stack":
                own |= {name: series.look()[name] for name in ("color", "label")}
                axes.barh(tops, y, 13, [ends[place] for place in x], **own)
                ends |= {place: ends[place] + value for place, value in zip(x, y, strict=True)}
            else:
                tops = [top + 12 * index - 2 for top in tops]
                axes.hlines(tops, low, high, color=style.color(series.color), linewidth=1.6, **own)
                axes.plot(y, tops, **series.look() | {"linestyle": "none"} | own)
        for value in self.guides:
            axes.axvline(value, color=style.INK, linewidth=1, zorder=0.8)
        for row, place in enumerate(places):
            name = printable(str(place))
            axes.annotate(
                name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…", (0, step * row + 18),
                xycoords=("axes fraction", "data"), color=style.INK, backgroundcolor=style.PAPER, zorder=0.9,
            )  # fmt: skip
        axes.set_ylim(step * len(places) + 2, 0)
        axes.set_yticks([])
        if self.kind == "stack":
            axes.set_xlim(left=0)
        axes.set_xlabel(printable(self.y_label), color=style.SOFT)


def _figure(charts: Sequence[Chart], *, columns: int, titles: bool) -> Figure:
    """Draw charts side by side, `columns` in a row; call it in the style of the page."""
    from matplotlib.figure import Figure

    rows = [charts[i : i + columns] for i in range(0, len(charts), columns)]
    heights = [max(chart._height(titles=titles) for chart in row) for row in rows]
    figure = Figure((_WIDTH * columns / 72, sum(heights) / 72), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    for axes, chart in zip(grid.flat, charts, strict=False):
        chart._draw(axes, title=titles)
    for axes in grid.flat[len(charts) :]:
        axes.set_axis_off()
    return figure


def write_charts(
    charts: Sequence[Chart], stem: Path, suffixes: tuple[str, ...], *, columns: int, note: str = ""
) -> list[Path]:
    """Write charts as one figure, `columns` in a row, with titles and legends inside and a note below."""
    with style.paper_style(style.PAGE):
        figure = _figure(charts, columns=columns, titles=True)
        return style.save_figure(figure, stem, suffixes, note=note)


def _inline(svg: str, attributes: str, names: Sequence[str]) -> str:
    """Return matplotlib's SVG as an element of the page: its colors, its font, groups by series, short numbers."""
    size = re.search(r'viewBox="[^"]*"', svg)
    assert size is not None
    body = svg[svg.index("</metadata>") + 11 : svg.rindex("</svg>")]
    body = re.sub(r"<defs>\s*<style.*?</defs>", "", body, count=1, flags=re.DOTALL)
    # Text stands between tags alone, so that numbers inside tags can be shortened.
    body = re.sub(r"<[^>]+>", lambda tag: _shorten(tag[0]), body)
    for index, name in enumerate(names):
        text = html_text(name)
        body = body.replace(f'<g id="series-{index}">', f'<g data-series="{text}"><title>{text}</title>')
    body = re.sub(r'<g id="[^"]*" ?/>', "", body)
    body = re.sub(r'<g id="[^"]*">', "<g>", body)
    body = re.sub(r">\s+<", "><", body)
    while (shorter := re.sub(r"<g>((?:<(?!g\b|/g>)[^>]*>[^<]*)*)</g>", r"\1", body)) != body:
        body = shorter
    return f"<svg {size[0]} {attributes}>{body.strip()}</svg>"


def _shorten(tag: str) -> str:
    tag = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), tag)
    tag = re.sub(r"\s*\n\s*", "", tag)
    tag = re.sub(r"([MLCQz]) ", r"\1", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    tag = tag.replace("xlink:href", "href").replace(": ", ":").replace("; ", ";")
    return re.sub(r"#[0-9a-f]{6}\b", lambda color: style.in_page(color[0]), tag)


def _number(value: Spread | Difference | None) -> str:
    if value is None or not math.isfinite(value.mean):
        return "" if value is None else "–"
    return f"{value.mean:.4g}" + (f" [{value.low:.4g}, {value.high:.4g}]" if math.isfinite(value.low) else "")
