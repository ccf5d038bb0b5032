"""Figures of experiments in the project's style; each names the scale at which it was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from gplasc.report.charts import Chart, Guide, Series, write_charts
from gplasc.report.style import color, marker, paper_style, save_figure
from gplasc.results.group import Group, Measure
from gplasc.study.experiment import Experiment

Draw = Callable[[Experiment, Sequence[Group], Sequence[Measure], Path], list[Path]]
"""Draws the measures of groups into a folder and returns the files."""


def curves(
    experiment: Experiment, groups: Sequence[Group], measures: Sequence[Measure], folder: Path
) -> list[Path]:
    """Draw accuracy over each setting that varies: a row of charts a setting, a column a stream and scenario.

    Points are means, bars one standard deviation over seeds; the dashed line is the base without the plug-in.
    """
    rows = {row.name: row for row in experiment.rows}
    columns = [(s, m) for s in dict.fromkeys(group.labels["stream"] for group in groups) for m in measures]
    varying = dict.fromkeys(row.group for g in groups if (row := rows[g.labels["row"]]).group)
    charts = []
    for number, name in enumerate(varying):
        for stream, measure in columns:
            present = [g for g in groups if g.labels["stream"] == stream and g.by_seed(measure)]
            varied = [(rows[g.labels["row"]], g) for g in present if rows[g.labels["row"]].group == name]
            bases = {row.base for row, _ in varied}
            places, spreads = [str(row.value) for row, _ in varied], [g.spread(measure) for _, g in varied]
            guides = [g for g in present if g.labels["row"] in bases]
            charts.append(
                Chart(
                    f"{stream}, {measure.label}",
                    str(name),
                    "accuracy, percent",
                    (Series.of(str(name), places, spreads, number),),
                    "",
                    guides=tuple(Guide(g.spread(measure).mean, g.labels["row"]) for g in guides),
                    zero_based=True,
                )
            )
    return _write(charts, experiment, folder, columns=len(columns))


def bars(
    experiment: Experiment, groups: Sequence[Group], measures: Sequence[Measure], folder: Path
) -> list[Path]:
    """Draw the mean of each row with one standard deviation over seeds; a chart for each stream and scenario."""
    charts = []
    for stream in dict.fromkeys(group.labels["stream"] for group in groups):
        for measure in measures:
            present = [g for g in groups if g.labels["stream"] == stream and g.by_seed(measure)]
            rows, spreads = [g.labels["row"] for g in present], [g.spread(measure) for g in present]
            series = Series.of(measure.label, rows, spreads)
            title = f"{stream}, {measure.label}"
            charts += [Chart(title, "", "accuracy, percent", (series,), "", "interval")] if present else []
    return _write(charts, experiment, folder, columns=len(charts))


def _write(charts: list[Chart], experiment: Experiment, folder: Path, *, columns: int) -> list[Path]:
    if not charts:
        return []
    stem = folder / experiment.name
    return write_charts(charts, stem, (".png", ".svg"), columns=columns, note=experiment.statement)


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
