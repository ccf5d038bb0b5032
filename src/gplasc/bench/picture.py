"""One picture of all figures, as shares of their bars, with the curves of growth below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gplasc._io.files import write_atomic
from gplasc.bench.figure import Curve, Figure, Measured
from gplasc.report.chart import Chart, Guide, Series
from gplasc.report.drawing import Drawing

_COLUMNS = 3


def write_picture(path: Path, measured: Measured) -> Path:
    """Write an SVG file with a chart for every item and one for every set of curves."""
    items = dict.fromkeys(figure.item for figure in measured.figures)
    charts = [_bars(item, [f for f in measured.figures if f.item == item]) for item in items]
    return write_atomic(
        path, tile([chart for chart in charts if chart.drawable] + growth_charts(measured.curves))
    )


def _bars(item: str, figures: Sequence[Figure]) -> Chart:
    known = [figure for figure in figures if figure.limit_used is not None]
    names = tuple(shortened(figure.name) for figure in known)
    series = Series("share", names, tuple(figure.limit_used for figure in known))
    return Chart(item, "", "share of the bar that is used", (series,), item, "interval", (Guide(1.0),))


def shortened(name: str) -> str:
    """Leave out the middle of a name that is too long for a chart: what tells names apart is often the end.

    >>> shortened("previous model with batch statistics / forward and backward, width 64")
    'previous model with batch…d backward, width 64'
    """
    head, tail = 25, 20
    return name if len(name) <= head + tail + 1 else f"{name[:head]}…{name[-tail:]}"


def growth_charts(curves: Sequence[Curve]) -> list[Chart]:
    """Return a chart for every set of curves."""
    charts = []
    for title in dict.fromkeys(curve.chart for curve in curves):
        own = [curve for curve in curves if curve.chart == title]
        series = tuple(Series(curve.name, curve.x, curve.y, color=number) for number, curve in enumerate(own))
        charts.append(Chart(title, own[0].x_label, own[0].y_label, series, title))
    return charts


def tile(charts: Sequence[Chart]) -> str:
    """Return charts side by side as one SVG document, each where the column is shortest."""
    bottoms = [0.0] * _COLUMNS
    body = ""
    width = 0.0
    for chart in charts:
        drawing: Drawing = chart.draw_with_title()
        column = bottoms.index(min(bottoms))
        place = f'<svg x="{column * drawing.width:g}" y="{bottoms[column]:g}" '
        body += drawing.to_svg(chart.summary, inline=False).replace("<svg ", place, 1)
        bottoms[column] += drawing.height
        width = drawing.width * _COLUMNS
    size = f'width="{width:g}" height="{max(bottoms):g}" viewBox="0 0 {width:g} {max(bottoms):g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{body}</svg>\n'
