"""Figures of experiments in the project's style; each names the scale at which it was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from gplasc.paper.definition import Experiment
from gplasc.paper.summary import Entry
from gplasc.report.charts import Chart, Guide, Series, write_charts
from gplasc.report.style import color, marker, paper_style, save_figure

Draw = Callable[[Experiment, Sequence[Entry], str, Path], list[Path]]
"""Draws the entries with the statement of their scale into a folder and returns the files."""


def curves(experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path) -> list[Path]:
    """Draw accuracy over each setting that varies: a row of charts a setting, a column a stream and scenario.

    Points are means, bars one standard deviation over seeds; the dashed line is the base without the plug-in.
    """
    charts = []
    columns = list(dict.fromkeys((e.stream, e.measure) for e in entries))
    for number, group in enumerate(dict.fromkeys(e.group for e in entries if e.group)):
        for column in columns:
            inside = [e for e in entries if (e.stream, e.measure) == column and e.spread.count]
            varied = [e for e in inside if e.group == group]
            bases = {e.base for e in varied if e.base}
            series = Series.of(group, [str(e.value) for e in varied], [e.spread for e in varied], number)
            guides = tuple(Guide(e.spread.mean, e.row) for e in inside if e.row in bases)
            title = f"{column[0]}, {column[1].label}"
            charts.append(
                Chart(title, group, "accuracy, percent", (series,), "", guides=guides, zero_based=True)
            )
    if not charts:
        return []
    stem = folder / experiment.name
    return write_charts(charts, stem, (".png", ".svg"), columns=len(columns), note=statement)


def bars(experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path) -> list[Path]:
    """Draw the mean of each row with one standard deviation over seeds; a chart for each stream and scenario."""
    charts = []
    for stream, measure in dict.fromkeys((e.stream, e.measure) for e in entries if e.spread.count):
        inside = [e for e in entries if (e.stream, e.measure) == (stream, measure) and e.spread.count]
        series = Series.of(measure.label, [e.row for e in inside], [e.spread for e in inside])
        charts.append(Chart(f"{stream}, {measure.label}", "", "accuracy, percent", (series,), "", "interval"))
    if not charts:
        return []
    stem = folder / experiment.name
    return write_charts(charts, stem, (".png", ".svg"), columns=len(charts), note=statement)


def heat_maps(
    means: Mapping[str, Tensor], errors: Mapping[str, Tensor], statement: str, folder: Path
) -> list[Path]:
    """Draw the overlap of each pair of tasks, (T, T) a row; darker is less, as in the paper."""
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2.3 * len(means) + 0.5, 2.9), layout="constrained")
        axes = figure.subplots(1, len(means), squeeze=False)[0]
        for ax, (row, value) in zip(axes, means.items(), strict=True):
            count = len(value)
            image = ax.imshow(value.numpy(), vmin=0, vmax=1, cmap="viridis")
            ax.grid(visible=False)
            for i in range(count):
                for j in range(count):
                    error = float(errors[row][i, j])
                    text = f"{float(value[i, j]):.3f}" + (f"\n±{error:.3f}" if i != j else "")
                    shade = "white" if value[i, j] < 0.6 else "black"
                    ax.text(j, i, text, ha="center", va="center", fontsize=5, color=shade)
            ticks = [f"T{number + 1}" for number in range(count)]
            ax.set_xticks(range(count), ticks)
            ax.set_yticks(range(count), ticks)
            ax.set_title(f"{row}: mean {_mean_pair(value):.3f}")
        figure.colorbar(image, ax=list(axes), shrink=0.7, label="overlap (± Monte-Carlo error)")
        return save_figure(figure, folder / "overlap", note=statement)


def scatters(
    pictures: Mapping[tuple[str, str], tuple[Tensor, Tensor]],
    names: Sequence[str],
    statement: str,
    folder: Path,
) -> list[Path]:
    """Draw embeddings, (N, 2) with task numbers (N,): a column for each row of the grid, a line for each kind."""
    columns = list(dict.fromkeys(row for row, _ in pictures))
    kinds = list(dict.fromkeys(kind for _, kind in pictures))
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2.4 * len(columns), 2.4 * len(kinds) + 0.8), layout="constrained")
        axes = figure.subplots(len(kinds), len(columns), squeeze=False)
        handles: list[Any] = []
        for i, kind in enumerate(kinds):
            for j, row in enumerate(columns):
                flat, y = pictures[row, kind]
                ax = axes[i][j]
                handles = [
                    ax.scatter(
                        *flat[y == task].T.numpy(),
                        s=6,
                        linewidths=0,
                        alpha=0.7,
                        color=color(task),
                        marker=marker(task),
                        label=name,
                        rasterized=True,
                    )
                    for task, name in enumerate(names)
                ]
                ax.set_xticks([])
                ax.set_yticks([])
                if i == 0:
                    ax.set_title(row)
                if j == 0:
                    ax.set_ylabel(f"features {kind}")
        figure.legend(handles=handles, loc="outside upper center", ncols=len(names), markerscale=2)
        return save_figure(figure, folder / "tsne", note=statement)


def _mean_pair(value: Tensor) -> float:
    count = len(value)
    return float((value.sum() - value.trace()) / max(count * (count - 1), 1))
