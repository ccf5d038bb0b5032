"""The picture of fair comparisons: what each plug-in gains beside each method, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gplasc.paper.fair.summary import FairSummary, RowResult
from gplasc.report.charts import Chart, Guide, Series, write_charts


def gains_chart(summaries: Sequence[FairSummary]) -> Chart:
    """Return a chart with a line for each method and stream, and a mark with an interval for each row compared with it.

    Args:
        summaries: Comparisons, in the order in which they are shown.
    """
    gains = [
        (row, gain)
        for summary in summaries
        for row in summary.rows
        if (gain := summary.difference(row)) is not None
    ]
    rows = [row for row, _ in gains]
    splits = " and ".join(dict.fromkeys(summary.evaluated_on for summary in summaries))
    several = len({(row.stream, row.shown_buffer) for row in rows}) > len({row.stream for row in rows})
    names = list(dict.fromkeys(_name(row) for row in rows))
    series = []
    for number, name in enumerate(names):
        own = [(row, gain) for row, gain in gains if _name(row) == name]
        series.append(
            Series(
                name,
                tuple(_place(row, with_buffer=several) for row, _ in own),
                tuple(gain.mean for _, gain in own),
                tuple(gain.low if gain.count > 1 else None for _, gain in own),
                tuple(gain.high if gain.count > 1 else None for _, gain in own),
                color=number,
            )
        )
    return Chart(
        title=f"Gain in final class-IL accuracy on {splits}",
        x_label="compared with",
        y_label="paired difference, percentage points, 95 % interval",
        series=tuple(series),
        summary="; ".join(f"{row.row} on {row.stream}: {gain.mean:+.2f}" for row, gain in gains),
        kind="interval",
        guides=(Guide(0.0),),
        name="gains",
    )


def write_gains(path: Path, summaries: Sequence[FairSummary]) -> list[Path]:
    """Write the chart as an SVG file and return its path; nothing if no row is compared with another."""
    chart = gains_chart(summaries)
    if not chart.drawable:
        return []
    return write_charts([chart], path.with_suffix(""), (".svg",), columns=1)


def _name(row: RowResult) -> str:
    """Return what is compared with the base: the plug-ins, or the row where its base has the same ones."""
    return "+".join(row.plugins) if row.row == f"{row.base}+{'+'.join(row.plugins)}" else row.row


def _place(row: RowResult, *, with_buffer: bool) -> str:
    buffer = f", buffer {row.shown_buffer}" if with_buffer else ""
    return f"{row.base} on {row.stream}{buffer}"
