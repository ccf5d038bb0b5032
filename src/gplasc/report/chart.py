"""A figure said once and drawn twice: plotly in the page, matplotlib for SVG and PDF."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gplasc.report import style
from gplasc.report.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Value = float | None
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class Series:
    """One line, or the bars of one color: y over x, with one error either way or none.

    Color and marker come from `color`; an open series (a base) is dashed with hollow markers.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[Value, ...]
    low: tuple[Value, ...] | None = None
    high: tuple[Value, ...] | None = None
    color: int = 0
    open: bool = False

    def __post_init__(self) -> None:
        for values in (self.y, self.low, self.high):
            if values is not None and len(values) != len(self.x):
                raise ValueError(
                    f"the series {self.name!r} has {len(self.x)} places and {len(values)} values"
                )


@dataclass(frozen=True)
class Guide:
    """A line at a height that theory or convention gives."""

    y: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Lines over tasks or settings, bars beside or on top of each other, or intervals.

    kind: "line"; "bar" (beside each other); "stack"; "interval" (y is on the horizontal axis, x names the rows).
    summary: what the figure says, in words, for those who cannot see it.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    summary: str
    kind: Literal["line", "bar", "stack", "interval"] = "line"
    guides: tuple[Guide, ...] = ()
    y_range: tuple[float, float] | None = None
    log_x: bool = False
    name: str = ""
    """Stem of the file when the figure is written beside the page."""

    @property
    def drawable(self) -> bool:
        """Whether there is any number to draw."""
        return any(_is_number(v) for series in self.series for v in series.y)

    @property
    def height(self) -> int:
        """Pixels in the page: rows of intervals and entries of the legend need room."""
        if self.flat:
            return 84 + 34 * max((len(s.x) for s in self.series), default=1)
        return 290

    @property
    def flat(self) -> bool:
        """Whether the values run along the horizontal axis, so that names of rows have room."""
        return self.kind in ("interval", "stack")

    def value_range(self) -> tuple[float, float] | None:
        """The range of the values' axis where it must be given: as asked for, or wide enough for the guides."""
        if self.y_range or not self.guides or self.kind in ("bar", "stack"):
            return self.y_range
        shown = [guide.y for guide in self.guides]
        for series in self.series:
            shown += [v for v in (*series.y, *(series.low or ()), *(series.high or ())) if v is not None]
        shown = [v for v in shown if math.isfinite(v)]
        room = 0.06 * ((max(shown) - min(shown)) or 1.0)
        # A guide's name stands above it.
        return min(shown) - room, max(shown) + (1 if self.flat else 2) * room

    def table(self) -> Table:
        """The numbers of the figure."""
        places = list(dict.fromkeys(x for series in self.series for x in series.x))
        rows = []
        for place in places:
            row = [f"{place:g}" if isinstance(place, (int, float)) else place]
            for series in self.series:
                at = series.x.index(place) if place in series.x else None
                row.append("" if at is None else _number(series, at))
            rows.append(tuple(row))
        head = (self.x_label or "row", *(s.name for s in self.series))
        return Table(f"{self.title}: {self.y_label}", head, tuple(rows))

    def to_plotly(self) -> dict[str, Any]:
        """The figure as plotly.js takes it; the page adds the colors of its theme."""
        traces = [self._trace(series) for series in self.series]
        flat = self.flat
        value_axis: dict[str, Any] = {"title": {"text": _text(self.y_label)}, "automargin": True}
        place_axis: dict[str, Any] = {"title": {"text": _text(self.x_label)}, "automargin": True}
        value_range = self.value_range()
        if value_range:
            value_axis["range"] = list(value_range)
        words = any(isinstance(x, str) for series in self.series for x in series.x)
        if words:
            place_axis["type"] = "category"
        elif self.log_x:
            place_axis["type"] = "log"
        if self.kind == "line" and not self.log_x and not words:
            places = sorted({float(x) for series in self.series for x in series.x})
            if len(places) <= 12:
                place_axis |= {
                    "tickmode": "array",
                    "tickvals": places,
                    "ticktext": [f"{p:g}" for p in places],
                }
            if len(places) > 1:
                edge = 0.04 * (places[-1] - places[0])
                place_axis["range"] = [places[0] - edge, places[-1] + edge]
        if flat:
            place_axis["autorange"] = "reversed"
        layout: dict[str, Any] = {
            "xaxis": value_axis if flat else place_axis,
            "yaxis": place_axis if flat else value_axis,
            "height": self.height,
            "showlegend": False,
            "barmode": "stack" if self.kind == "stack" else "group",
            "scattermode": "group" if self.kind == "interval" else "overlay",
            "scattergap": 0.4,
            "shapes": [self._shape(guide.y, flat) for guide in self.guides],
            "annotations": [] if flat else [_annotation(guide) for guide in self.guides],
        }
        return {"data": traces, "layout": layout}

    def _shape(self, at: float, flat: bool) -> dict[str, Any]:
        line = {"color": style.STRUCTURE, "width": 1.5, "dash": "dash"}
        if flat:
            line = {"color": style.FAINT, "width": 1.5, "dash": "solid"}
            return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at, "line": line}
        return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": line}

    def _trace(self, series: Series) -> dict[str, Any]:
        color = style.color(series.color)
        y = [_round(v) for v in series.y]
        x = [_text(v) if isinstance(v, str) else v for v in series.x]
        trace: dict[str, Any] = {"name": _text(series.name), "x": x, "y": y}
        if series.low is not None and series.high is not None:
            rows = list(zip(series.y, series.low, series.high, strict=True))
            # None hides an error bar.
            error = {
                "type": "data",
                "symmetric": False,
                "array": [_round(h - v) if _all(v, low, h) else None for v, low, h in rows],  # type: ignore[operator]
                "arrayminus": [_round(v - low) if _all(v, low, h) else None for v, low, h in rows],  # type: ignore[operator]
                "thickness": 1.3,
                "width": 4,
            }
            trace["error_x" if self.kind == "interval" else "error_y"] = error
        if self.kind in ("bar", "stack"):
            trace |= {"type": "bar", "marker": {"color": color}}
            if series.open:
                trace["marker"] |= {"pattern": {"shape": "/", "fgcolor": color, "bgcolor": "rgba(0,0,0,0)"}}
        else:
            symbol = _SYMBOLS[style.marker_number(series.color)] + ("-open" if series.open else "")
            trace |= {
                "type": "scatter",
                "mode": "markers" if self.kind == "interval" else "lines+markers",
                "marker": {"color": color, "symbol": symbol, "size": 8},
                "line": {"color": color, "width": 2, "dash": "dash" if series.open else "solid"},
            }
        if self.flat:
            trace |= {"x": y, "y": x, "orientation": "h"}
        return trace

    def to_matplotlib(self) -> Figure:
        """The figure for print; call it in `style.paper_style`."""
        from matplotlib.figure import Figure

        tall = self.height / 96
        figure = Figure(figsize=(3.5, min(tall, 8.0)))
        axes = figure.subplots()
        axes.set_title(self.title, loc="left")
        draw = {
            "line": self._draw_lines,
            "interval": self._draw_intervals,
            "stack": self._draw_stack,
            "bar": self._draw_bars,
        }
        draw[self.kind](axes)
        if self.log_x:
            axes.set_xscale("log")
        if len(self.series) > 1:
            below = -0.55 / figure.get_size_inches()[1]
            axes.legend(loc="upper left", bbox_to_anchor=(0, below), ncols=2, borderaxespad=0)
        return figure

    def _draw_lines(self, axes: Axes) -> None:
        words = any(isinstance(x, str) for series in self.series for x in series.x)
        for series in self.series:
            x: Sequence[Any] = series.x
            y = [math.nan if v is None else v for v in series.y]
            color = style.color(series.color)
            axes.errorbar(
                x,
                y,
                yerr=_errors(series),
                color=color,
                marker=style.marker(series.color),
                markersize=4,
                markerfacecolor=style.PAPER if series.open else color,
                linestyle="--" if series.open else "-",
                elinewidth=0.8,
                capsize=1.5,
                label=_mathless(series.name),
            )
        if not words and not self.log_x:
            places = sorted({float(x) for series in self.series for x in series.x})
            if len(places) <= 12:
                axes.set_xticks(places)
        for guide in self.guides:
            axes.axhline(guide.y, color=style.STRUCTURE, linewidth=0.8, linestyle="--")
            axes.annotate(
                guide.label,
                (1, guide.y),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=7,
                color=style.STRUCTURE,
            )
        self._name_axes(axes)

    def _draw_bars(self, axes: Axes) -> None:
        places = list(dict.fromkeys(x for series in self.series for x in series.x))
        width = 0.8 / max(len(self.series), 1)
        for index, series in enumerate(self.series):
            shift = (index - (len(self.series) - 1) / 2) * width
            axes.bar(
                [places.index(x) + shift for x in series.x],
                [v or 0.0 for v in series.y],
                width,
                yerr=_errors(series),
                error_kw={"elinewidth": 0.8, "capsize": 1.5},
                **_bar_style(series),
            )
        axes.set_xticks(range(len(places)), [_mathless(str(p)) for p in places], rotation=30, ha="right")
        self._name_axes(axes)

    def _draw_stack(self, axes: Axes) -> None:
        places = list(dict.fromkeys(x for series in self.series for x in series.x))
        ground = [0.0] * len(places)
        for series in self.series:
            rows = [places.index(x) for x in series.x]
            values = [v or 0.0 for v in series.y]
            axes.barh(rows, values, 0.7, left=[ground[r] for r in rows], **_bar_style(series))
            for row, value in zip(rows, values, strict=True):
                ground[row] += value
        axes.set_yticks(range(len(places)), [_mathless(str(p)) for p in places])
        axes.invert_yaxis()
        axes.set_xlabel(self.y_label)

    def _draw_intervals(self, axes: Axes) -> None:
        places = list(dict.fromkeys(x for series in self.series for x in series.x))
        for index, series in enumerate(self.series):
            shift = 0.2 * (index - (len(self.series) - 1) / 2)
            rows = [places.index(x) + shift for x in series.x]
            values = [math.nan if v is None else v for v in series.y]
            color = style.color(series.color)
            axes.errorbar(
                values,
                rows,
                xerr=_errors(series),
                fmt=style.marker(series.color),
                color=color,
                markersize=4,
                markerfacecolor=style.PAPER if series.open else color,
                elinewidth=1,
                capsize=2,
                label=_mathless(series.name),
            )
        axes.set_yticks(range(len(places)), [_mathless(str(p)) for p in places])
        axes.invert_yaxis()
        for guide in self.guides:
            axes.axvline(guide.y, color=style.FAINT, linewidth=0.8)
        axes.set_xlim(self.value_range())
        axes.set_xlabel(self.y_label)

    def _name_axes(self, axes: Axes) -> None:
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        value_range = self.value_range()
        if value_range:
            axes.set_ylim(*value_range)


@dataclass(frozen=True)
class HeatMap:
    """A matrix as a table of colored cells: it can be read aloud, printed and copied.

    Values run from 0 to `top`, or from -top to top when `signed`; None leaves a cell empty.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    corner: str = ""
    top: float = 100.0
    signed: bool = False
    digits: int = 1
    note: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise ValueError(
                f"the heat map {self.title!r} needs {len(self.rows)} x {len(self.columns)} values"
            )

    def cells(self) -> list[list[tuple[str, int, bool]]]:
        """Text, strength in percent and whether it is negative, for every entry."""
        return [[self._cell(value) for value in row] for row in self.values]

    def _cell(self, value: Value) -> tuple[str, int, bool]:
        if not _is_number(value):
            return "", 0, False
        assert value is not None
        share = min(abs(value) / self.top, 1.0) if self.top else 0.0
        return f"{value:.{self.digits}f}", round(100 * share), value < 0

    def to_matplotlib(self) -> Figure:
        """The figure for print; call it in `style.paper_style`."""
        import numpy
        from matplotlib.figure import Figure

        size = 0.34 * max(len(self.columns), 4)
        figure = Figure(figsize=(size + 0.9, 0.3 * max(len(self.rows), 3) + 0.7))
        axes = figure.subplots()
        axes.grid(False)
        for side in axes.spines.values():
            side.set_visible(False)
        grid = numpy.array([[math.nan if v is None else v for v in row] for row in self.values], dtype=float)
        grid = grid.reshape(len(self.rows), len(self.columns))
        axes.imshow(
            grid,
            cmap="PuOr" if self.signed else "Blues",
            vmin=-self.top if self.signed else 0,
            vmax=self.top,
            aspect="auto",
        )
        for r, row in enumerate(self.cells()):
            for c, (text, strength, _) in enumerate(row):
                ink = style.PAPER if strength > 60 else style.INK
                axes.text(c, r, text, ha="center", va="center", fontsize=6, color=ink)
        axes.set_xticks(range(len(self.columns)), [_mathless(c) for c in self.columns], fontsize=6.5)
        axes.set_yticks(range(len(self.rows)), [_mathless(r) for r in self.rows], fontsize=6.5)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        axes.set_title(_mathless(self.title), loc="left", fontsize=8)
        return figure


@dataclass(frozen=True)
class Plot:
    """Any plotly figure, such as a sphere to turn; `summary` says in words what it shows."""

    title: str
    figure: Any
    summary: str
    height: int = 430

    def to_plotly(self) -> dict[str, Any]:
        """The figure as plotly.js takes it."""
        import json

        parsed: dict[str, Any] = json.loads(self.figure.to_json())
        parsed["layout"]["height"] = self.height
        parsed["layout"].pop("template", None)  # colors of the page's theme are used instead
        return parsed


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, set into the page as SVG; `alt` says in words what it shows."""

    title: str
    figure: Any
    alt: str
    name: str = ""

    def to_svg(self) -> bytes:
        """The figure as an SVG file with its own fonts."""
        import io

        out = io.BytesIO()
        with style.paper_style():
            self.figure.savefig(
                out, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None}
            )
        return out.getvalue()

    def to_matplotlib(self) -> Figure:
        """The figure itself."""
        figure: Figure = self.figure
        return figure


def _bar_style(series: Series) -> dict[str, Any]:
    color = style.color(series.color)
    return {
        "color": style.PAPER if series.open else color,
        "edgecolor": color,
        "linewidth": 0.6,
        "hatch": "////" if series.open else None,
        "label": _mathless(series.name),
    }


def _annotation(guide: Guide) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 1,
        "y": guide.y,
        "text": _text(guide.label),
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom",
        "font": {"size": 12},
    }


def _is_number(value: Value) -> bool:
    return value is not None and math.isfinite(value)


def _all(*values: Value) -> bool:
    return all(_is_number(value) for value in values)


def _round(value: Value) -> Value:
    """Five digits are more than any screen shows and halve the page."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _number(series: Series, at: int) -> str:
    value = series.y[at]
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.4g}"
    if series.low is None or series.high is None:
        return text
    low, high = series.low[at], series.high[at]
    return f"{text} [{low:.4g}, {high:.4g}]" if _all(low, high) else text


def _errors(series: Series) -> Any:
    """Distances downwards and upwards as matplotlib takes them, 0 where there is none."""
    if series.low is None or series.high is None:
        return None
    down, up = [], []
    for value, low, high in zip(series.y, series.low, series.high, strict=True):
        known = value is not None and low is not None and high is not None and _all(value, low, high)
        down.append(max(value - low, 0.0) if known else 0.0)  # type: ignore[operator]
        up.append(max(high - value, 0.0) if known else 0.0)  # type: ignore[operator]
    return [down, up]


def _text(text: str) -> str:
    """Plotly reads a little HTML in its labels; ours are plain."""
    return html.escape(text, quote=False)


def _mathless(text: str) -> str:
    """Matplotlib reads formulas between dollars; ours are plain."""
    return text.replace("$", r"\$")
