"""Charts by matplotlib: lines over tasks or settings, intervals and stacked bars, for the page and for files."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gplasc._io.table import Table
from gplasc._io.text import html_text, printable
from gplasc.report import style
from gplasc.results.statistics import Spread

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
    """One line, or the marks or bars of one color: y over x, with the ends of an error bar or none.

    Values that are None or not finite are left out. Color and marker come from `color`; a hollow series (a base) is
    dashed with open markers; the points of a series that is not joined have no line through them.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    color: int = 0
    hollow: bool = False
    joined: bool = True

    @classmethod
    def of(
        cls,
        name: str,
        x: Sequence[float | str],
        spreads: Sequence[Spread],
        color: int = 0,
        hollow: bool = False,
    ) -> Series:
        """Means at their places, with one standard deviation either way."""
        low, high = (tuple(s.mean + sign * s.std for s in spreads) for sign in (-1, 1))
        return cls(name, tuple(x), tuple(s.mean for s in spreads), low, high, color, hollow)

    def points(self) -> list[tuple[float | str, float, float, float]]:
        """Place, value and both ends of the error bar of every finite value; NaN for ends that are missing."""
        none = (None,) * len(self.x)
        points = []
        for x, y, *ends in zip(self.x, self.y, self.low or none, self.high or none, strict=True):
            if y is not None and math.isfinite(y):
                low, high = (end if end is not None else math.nan for end in ends)
                points.append((x, y, low, high) if math.isfinite(high - low) else (x, y, math.nan, math.nan))
        return points

    @property
    def label(self) -> str:
        """The name for matplotlib's legend, which leaves out names that begin with an underscore."""
        return printable(f" {self.name}" if self.name.startswith("_") else self.name)

    def look(self) -> dict[str, Any]:
        """Arguments of matplotlib's `plot` for the line and its markers."""
        shade = style.color(self.color)
        return {
            "label": self.label,
            "color": shade,
            "marker": style.marker(self.color),
            "markersize": 7,
            "markerfacecolor": style.PAPER if self.hollow else shade,
            "markeredgewidth": 1.4,
            "linewidth": 2,
            "linestyle": "none" if not self.joined else (0, (2.5, 1.5)) if self.hollow else "-",
        }


@dataclass(frozen=True)
class Guide:
    """A line at a value that theory or convention gives; "" leaves out its label."""

    value: float
    label: str = ""


@dataclass(frozen=True)
class Chart:
    """A figure of series.

    Args:
        title: Heading.
        x_label: What the places are.
        y_label: What the values are.
        series: What is drawn.
        summary: What the figure says, in words, for those who cannot see it.
        kind: "line"; or, with a row for each place and values along the horizontal axis, "interval" or "stack".
        guides: Values to compare with; always inside the range that is shown.
        log_x: Whether the places of lines are spaced by their logarithm.
        zero_based: Whether readers expect the axis to start at 0; if it does not, its label says where it starts.
        name: Stem of the file when the figure is written to disk.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    summary: str
    kind: Literal["line", "interval", "stack"] = "line"
    guides: tuple[Guide, ...] = ()
    log_x: bool = False
    zero_based: bool = False
    name: str = ""

    @property
    def drawable(self) -> bool:
        """Whether there is any number to draw."""
        return any(series.points() for series in self.series)

    def swatches(self) -> dict[str, str]:
        """Return the entries of the legend: the marker of each series in its color; of bars a square."""
        swatches = {}
        for series in self.series:
            glyph = "■" if self.kind == "stack" else _GLYPHS[style.marker(series.color)][series.hollow]
            swatches[series.name] = f'<i style="color:{style.in_page(style.color(series.color))}">{glyph}</i>'
        return swatches

    def table(self) -> Table:
        """Return the numbers of the figure."""
        rows = []
        for place in self._places():
            row = [f"{place:g}" if isinstance(place, (int, float)) else place]
            for series in self.series:
                texts = [_number(*point) for x, *point in series.points() if x == place]
                row.append(texts[0] if texts else "–" if place in series.x else "")
            rows.append(row)
        head = (self.x_label or "row", *(s.name for s in self.series))
        return Table(f"{self.title}: {self.y_label}", head, rows)

    def to_html(self, *, own_legend: bool = True) -> str:
        """Return a figure element: heading, legend, drawing, words, and the numbers to unfold."""
        title, words = html_text(self.title), html_text(_cut(self.summary))
        own = legend(self.swatches()) if own_legend else ""
        return (
            f'<figure class="card"><p class="title">{title}</p>{own}{self._to_svg()}'
            f'<figcaption>{words}</figcaption><details class="numbers"><summary>Numbers</summary>'
            f'<div class="scroll" tabindex="0">{self.table().to_html()}</div></details></figure>\n'
        )

    def write(self, stem: Path) -> list[Path]:
        """Write SVG and PDF files, with title and legend inside, and return their paths."""
        return write_charts([self], stem, (".svg", ".pdf"), columns=1)

    def _to_svg(self) -> str:
        """Return the drawing without title and legend, as an SVG element in the colors of the page."""
        identity = hashlib.sha256(repr(self).encode("utf-8", "backslashreplace")).hexdigest()
        out = io.StringIO()
        with style.paper_style(_LOOK | {"svg.hashsalt": identity}):  # ids differ from those of other charts
            _figure([self], columns=1, titles=False).savefig(out, format="svg", metadata=style.NO_METADATA)
        names = [series.name for series in self.series]
        return _inline(out.getvalue(), f'role="img" aria-label="{html_text(self.title)}"', names)

    def _places(self) -> list[float | str]:
        return list(dict.fromkeys(x for series in self.series for x in series.x))

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
            x, y, low, high = zip(*series.points(), strict=True) if series.points() else ((), (), (), ())
            x = tuple(places.index(place) for place in x) if words else x
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
        for guide in self.guides:
            axes.axhline(guide.value, color=style.STRUCTURE, linewidth=1.3, linestyle=(0, (4, 2.5)))
            axes.annotate(
                guide.label, (1, guide.value), (0, 4), xycoords=("axes fraction", "data"), ha="right",
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
            x, y, low, high = zip(*series.points(), strict=True) if series.points() else ((), (), (), ())
            tops = [step * places.index(place) + 30 for place in x]
            if self.kind == "stack":
                own |= {"color": style.color(series.color), "label": series.label}
                axes.barh(tops, y, 13, [ends[place] for place in x], **own)
                ends |= {place: ends[place] + value for place, value in zip(x, y, strict=True)}
            else:
                tops = [top + 12 * index - 2 for top in tops]
                axes.hlines(tops, low, high, color=style.color(series.color), linewidth=1.6, **own)
                axes.plot(y, tops, **series.look() | {"linestyle": "none"} | own)
        for guide in self.guides:
            axes.axvline(guide.value, color=style.INK, linewidth=1, zorder=0.8)
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


_SIZES = [
    "axes.labelsize",
    "axes.titlesize",
    "font.size",
    "legend.fontsize",
    "xtick.labelsize",
    "ytick.labelsize",
]
_LOOK: dict[str, Any] = dict.fromkeys(_SIZES, 12.5) | {
    "axes.titlepad": 9,
    "figure.dpi": 72,
    "grid.color": style.RULE,
    "grid.linewidth": 1,
    "savefig.dpi": 144,
    "text.parse_math": False,
}


def _figure(charts: Sequence[Chart], *, columns: int, titles: bool) -> Figure:
    """Draw charts side by side, `columns` in a row; call it with the style `_LOOK`."""
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
    """Write charts as one figure, with titles and legends inside.

    Args:
        charts: What to draw, row by row.
        stem: Path of the files without suffix.
        suffixes: Formats.
        columns: Charts in a row.
        note: Text below the charts.

    Returns:
        The paths.
    """
    with style.paper_style(_LOOK):
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


def legend(swatches: Mapping[str, str]) -> str:
    """Return a list with a button for each name and its swatch (an element); pressing one hides what has the name.

    "" for a single name, and where one look would stand for two.
    """
    if not 1 < len(swatches) == len(set(swatches.values())):
        return ""
    entries = ""
    for name, swatch in swatches.items():
        text = html_text(name)
        button = f'<button type="button" aria-pressed="true" data-for="{text}">{swatch}{text}</button>'
        entries += f"<li>{button}</li>"
    few = " few" if len(swatches) <= 8 else ""
    return f'<ul class="legend{few}" aria-label="Legend; press an entry to hide it">{entries}</ul>\n'


def _number(value: float, low: float, high: float) -> str:
    return f"{value:.4g}" + (f" [{low:.4g}, {high:.4g}]" if math.isfinite(low) else "")


def _cut(text: str, length: int = 700) -> str:
    """Cut a long list between two entries."""
    if len(text) <= length:
        return text
    return text[: max(text.rfind(";", 0, length), 0)] + "; and more in the numbers below."
