"""Charts: lines over tasks or settings, intervals, and stacked bars, drawn once for the page and for files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gplasc._io.table import Table, html_text
from gplasc.report import style
from gplasc.report.drawing import Anchor, Drawing

Number = float | None
_WIDTH = 380.0


@dataclass(frozen=True)
class Series:
    """One line, or the marks or bars of one color: y over x, with the ends of an error bar or none.

    Color and mark come from `color`; a hollow series (a base) is dashed with open marks.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[Number, ...]
    low: tuple[Number, ...] | None = None
    high: tuple[Number, ...] | None = None
    color: int = 0
    hollow: bool = False

    def __post_init__(self) -> None:
        for values in (self.y, self.low, self.high):
            if values is not None and len(values) != len(self.x):
                raise ValueError(
                    f"the series {self.name!r} has {len(self.x)} places and {len(values)} values"
                )

    def points(self) -> list[tuple[float | str, float, float | None, float | None]]:
        """Place, value and both ends of the error bar of every finite value; no ends where one is missing."""
        none = (None,) * len(self.x)
        found: list[tuple[float | str, float, float | None, float | None]] = []
        for x, y, low, high in zip(self.x, self.y, self.low or none, self.high or none, strict=True):
            if y is not None and math.isfinite(y):
                known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
                found.append((x, y, low, high) if known else (x, y, None, None))
        return found

    @property
    def look(self) -> tuple[int, bool]:
        """What tells the series from others in a figure."""
        return self.color, self.hollow


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
    name: str = ""

    @property
    def drawable(self) -> bool:
        """Whether there is any number to draw."""
        return any(series.points() for series in self.series)

    def table(self) -> Table:
        """Return the numbers of the figure."""
        rows = []
        for place in self._places():
            row = [f"{place:g}" if isinstance(place, (int, float)) else place]
            for series in self.series:
                found = [point for point in series.points() if point[0] == place]
                row.append(_number(found[0]) if found else "–" if place in series.x else "")
            rows.append(row)
        head = (self.x_label or "row", *(s.name for s in self.series))
        return Table(f"{self.title}: {self.y_label}", head, rows)

    def to_html(self, *, own_legend: bool = True) -> str:
        """Return a figure element: heading, legend, drawing, words, and the numbers to unfold."""
        title, words = html_text(self.title), html_text(self.summary)
        own = legend([self]) if own_legend else ""
        return (
            f'<figure class="card"><p class="title">{title}</p>{own}{self.draw().to_svg(self.title)}'
            f'<figcaption>{words}</figcaption><details class="numbers"><summary>Numbers</summary>'
            f'<div class="scroll" tabindex="0">{self.table().to_html()}</div></details></figure>\n'
        )

    def write(self, stem: Path) -> list[Path]:
        """Write SVG and PDF files, with title and legend inside, and return their paths."""
        return self.draw_with_title().write(stem, self.summary)

    def draw_with_title(self) -> Drawing:
        """Return the drawing with title and legend inside, for a file of its own."""
        drawing = Drawing(_WIDTH)
        drawing.text(8, 16, self.title, size=13)
        bottom = self._draw(drawing, 24)
        if len(self.series) > 1:
            for series in self.series:
                bottom += 18
                _swatch(drawing, series, 24, bottom - 4, bar=self.kind == "stack")
                drawing.text(46, bottom, series.name)
        drawing.height = bottom + 8
        return drawing

    def draw(self) -> Drawing:
        """Return the drawing without title and legend, which the page sets itself."""
        drawing = Drawing(_WIDTH)
        drawing.height = self._draw(drawing, 0) + 2
        return drawing

    def _places(self) -> list[float | str]:
        return list(dict.fromkeys(x for series in self.series for x in series.x))

    def _range(self) -> tuple[float, float]:
        """The values that must be seen, with some room; bars begin at 0."""
        if self.kind == "stack":
            totals = [sum(p[1] for s in self.series for p in s.points() if p[0] == x) for x in self._places()]
            return 0.0, max([*totals, 1e-9])
        shown = [v for s in self.series for _, *values in s.points() for v in values if v is not None]
        shown += [guide.value for guide in self.guides]
        low, high = min(shown, default=0.0), max(shown, default=1.0)
        room = 0.05 * (high - low) or abs(high) * 0.05 or 0.5
        return low - room, high + room

    def _draw(self, drawing: Drawing, top: float) -> float:
        """Draw below `top` and return where the drawing ends."""
        return self._draw_lines(drawing, top) if self.kind == "line" else self._draw_rows(drawing, top)

    def _draw_lines(self, drawing: Drawing, top: float) -> float:
        low, high = self._range()
        ticks = nice_ticks(low, high)
        left = 14 + 7 * max(len(_tick(t)) for t in ticks)
        right, ceiling, floor = _WIDTH - 12, top + 26, top + 226
        cut = ""
        if low > 0 and "percent" in self.y_label:  # a reader expects such an axis to start at 0
            low = max(ticks[0] - (ticks[1] - ticks[0]), 0.0)
            ticks = [low, *ticks]
            cut = f"; axis starts at {_tick(low)}" if low else ""
        drawing.text(4, top + 12, self.y_label + cut, color="soft")

        def height(value: float) -> float:
            return floor - (floor - ceiling) * (value - low) / (high - low)

        for tick in ticks:
            drawing.line([(left, height(tick)), (right, height(tick))], "rule")
            drawing.text(left - 6, height(tick) + 4, _tick(tick), anchor="end", color="soft")
        at = _spread_places(self._places(), left + 10, right - 10, log=self.log_x)
        end = -math.inf
        for place in sorted(at, key=lambda p: at[p]):
            name = f"{place:g}" if isinstance(place, (int, float)) else place
            if at[place] - 3.4 * len(name) > end + 6:
                drawing.text(at[place], floor + 17, name, anchor="middle", color="soft")
                end = at[place] + 3.4 * len(name)
        drawing.text((left + right) / 2, floor + 35, self.x_label, anchor="middle", color="soft")
        for guide in self.guides:
            drawing.line(
                [(left, height(guide.value)), (right, height(guide.value))], "structure", 1.3, dashed=True
            )
            line = height(guide.value) + (15 if height(guide.value) < ceiling + 16 else -5)
            width = 6.9 * len(guide.label)
            drawing.area(right - width, line - 11, width, 14, "card", 0.85)  # no grid line through the text
            drawing.text(right, line, guide.label, anchor="end", color="structure")
        for series in self.series:
            drawing.series = series.name
            color = style.color_name(series.color)
            points = series.points()
            for x, _, down, up in points:
                if down is not None and up is not None and up > down:
                    drawing.line([(at[x], height(down)), (at[x], height(up))], color, 1.2)
            path = [(at[x], height(y)) for x, y, _, _ in points]
            if path:
                drawing.line(path, color, 2, dashed=series.hollow)
                drawing.marks(path, color, style.marker_number(series.color), hollow=series.hollow)
        drawing.series = ""
        return floor + 40

    def _draw_rows(self, drawing: Drawing, top: float) -> float:
        low, high = self._range()
        left, right = 12.0, _WIDTH - 12
        names = self._places()
        # The name of a row stands above its marks: it may be long, and a phone is narrow.
        step = 24.0 + (12 * max(len(self.series), 1) if self.kind == "interval" else 16)
        floor = top + 4 + step * len(names)

        def across(value: float) -> float:
            return left + (right - left) * (value - low) / (high - low)

        def rule(value: float, color: str) -> None:
            for row in range(len(names)):  # not through the names
                drawing.line(
                    [(across(value), top + 25 + step * row), (across(value), top + 4 + step * (row + 1))],
                    color,
                )

        for tick in nice_ticks(low, high):
            rule(tick, "rule")
            anchor: Anchor = (
                "start" if across(tick) < 22 else "end" if across(tick) > _WIDTH - 22 else "middle"
            )
            drawing.text(across(tick), floor + 16, _tick(tick), anchor=anchor, color="soft")
        for guide in self.guides:
            rule(guide.value, "ink")
        drawing.text((left + right) / 2, floor + 34, self.y_label, anchor="middle", color="soft")
        for row, name in enumerate(names):
            text = str(name)
            shown = text if len(text) <= 52 else text[:51] + "…"
            drawing.text(left, top + 20 + step * row, shown)
        ground = dict.fromkeys(names, 0.0)
        for index, series in enumerate(self.series):
            drawing.series = series.name
            color = style.color_name(series.color)
            for x, y, down, up in series.points():
                line = top + 33 + step * names.index(x) + (12 * index if self.kind == "interval" else 0)
                if self.kind == "stack":
                    drawing.area(across(ground[x]), line - 6, across(y) - across(0.0), 13, color)
                    ground[x] += y
                    continue
                if down is not None and up is not None:
                    drawing.line([(across(down), line), (across(up), line)], color, 1.6)
                    for end in (down, up):
                        drawing.line([(across(end), line - 3), (across(end), line + 3)], color, 1.6)
                drawing.marks(
                    [(across(y), line)], color, style.marker_number(series.color), hollow=series.hollow
                )
        drawing.series = ""
        return floor + 38


def legend(charts: Sequence[Chart]) -> str:
    """Return a list with an entry for every series of the charts; pressing one hides the series. "" for one series."""
    series = {s.name: (s, chart.kind == "stack") for chart in charts for s in chart.series}
    if len(series) < 2:
        return ""
    entries = ""
    for name, (one, bar) in series.items():
        sample = Drawing(30, 14)
        _swatch(sample, one, 15, 7, bar=bar)
        text = html_text(name)
        button = (
            f'<button type="button" aria-pressed="true" data-for="{text}">{sample.to_svg()}{text}</button>'
        )
        entries += f"<li>{button}</li>"
    few = " few" if len(series) <= 8 else ""
    return f'<ul class="legend{few}" aria-label="Legend; press an entry to hide it">{entries}</ul>\n'


def share_legend(charts: Sequence[Chart]) -> bool:
    """Whether one legend can serve all charts: no look stands for two names."""
    names: dict[tuple[int, bool], str] = {}
    return all(names.setdefault(s.look, s.name) == s.name for chart in charts for s in chart.series)


def _swatch(drawing: Drawing, series: Series, x: float, y: float, *, bar: bool) -> None:
    color = style.color_name(series.color)
    if bar:
        drawing.area(x - 7, y - 6, 13, 12, color)
        return
    drawing.line([(x - 14, y), (x + 14, y)], color, 2, dashed=series.hollow)
    drawing.marks([(x, y)], color, style.marker_number(series.color), hollow=series.hollow)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers inside the range.

    >>> nice_ticks(61.2, 88.0), nice_ticks(-0.3, 0.1, 4)
    ([65.0, 70.0, 75.0, 80.0, 85.0], [-0.3, -0.2, -0.1, 0.0, 0.1])
    """
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= 0.75 * raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]


def _tick(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _number(point: tuple[float | str, float, float | None, float | None]) -> str:
    _, value, low, high = point
    return f"{value:.4g}" + (f" [{low:.4g}, {high:.4g}]" if low is not None else "")


def _spread_places(
    places: Iterable[float | str], left: float, right: float, *, log: bool
) -> dict[float | str, float]:
    """Horizontal positions: numbers by their value (or logarithm), words evenly."""
    known = list(places)
    if all(isinstance(p, (int, float)) for p in known):
        values = [math.log10(p) if log else float(p) for p in known if not isinstance(p, str)]
    else:
        values = [float(i) for i in range(len(known))]
    if not values:
        return {}
    low, width = min(values), (max(values) - min(values))
    return {
        p: left + (right - left) * ((v - low) / width if width else 0.5)
        for p, v in zip(known, values, strict=True)
    }
