"""Figures of experiments in the project's style; each names the scale at which it was measured."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from gplasc.paper.definition import Experiment
from gplasc.paper.summary import Entry
from gplasc.report.style import INK, color, marker, paper_style, save_figure

Draw = Callable[[Experiment, Sequence[Entry], str, Path], list[Path]]
"""Draws the entries with the statement of their scale into a folder and returns the files."""


def curves(experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path) -> list[Path]:
    """Draw accuracy over each setting that varies: a row of panels a setting, a column a stream and scenario.

    Points are means, bars one standard deviation over seeds; the dashed line is the base without the plug-in.
    """
    groups = list(dict.fromkeys(e.group for e in entries if e.group))
    columns = list(dict.fromkeys((e.stream, e.measure) for e in entries))
    if not groups:
        return []
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2.5 * len(columns), 2.1 * len(groups) + 0.5), layout="constrained")
        axes = figure.subplots(len(groups), len(columns), squeeze=False)
        for i, group in enumerate(groups):
            for j, (stream, measure) in enumerate(columns):
                ax = axes[i][j]
                found = [e for e in entries if (e.group, e.stream, e.measure) == (group, stream, measure)]
                found = [e for e in found if e.spread.count]
                places = list(range(len(found)))
                ax.errorbar(
                    places,
                    [e.spread.mean for e in found],
                    [e.spread.std if e.spread.count > 1 else float("nan") for e in found],
                    color=color(i),
                    marker=marker(i),
                    markersize=4,
                    capsize=2,
                )
                base = {e.base for e in found if e.base}
                for e in entries:
                    if e.row in base and (e.stream, e.measure) == (stream, measure) and e.spread.count:
                        ax.axhline(e.spread.mean, color=INK, linestyle="--", linewidth=0.8)
                        ax.annotate(
                            e.row,
                            (0.99, e.spread.mean),
                            xycoords=("axes fraction", "data"),
                            ha="right",
                            va="bottom",
                            fontsize=6.5,
                        )
                ax.set_xticks(places, [str(e.value) for e in found])
                ax.set_xlabel(group)
                if i == 0:
                    ax.set_title(f"{stream}, {measure.label}")
                if j == 0:
                    ax.set_ylabel("accuracy, percent")
        _caption(figure, statement)
        return save_figure(figure, folder / experiment.name)


def bars(experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path) -> list[Path]:
    """Draw a bar for each row, with one standard deviation over seeds; a panel for each stream and scenario."""
    columns = list(dict.fromkeys((e.stream, e.measure) for e in entries if e.spread.count))
    rows = list(dict.fromkeys(e.row for e in entries))
    if not columns:
        return []
    with paper_style():
        from matplotlib.figure import Figure

        size = (1.6 + 2.8 * len(columns), 0.24 * len(rows) + 1.2)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        for ax, (stream, measure) in zip(axes, columns, strict=True):
            found = [e for e in entries if (e.stream, e.measure) == (stream, measure) and e.spread.count]
            places = [rows.index(e.row) for e in found]
            means = [e.spread.mean for e in found]
            spans = [e.spread.std if e.spread.count > 1 else float("nan") for e in found]
            ax.barh(
                places, means, 0.7, xerr=spans, color=color(0), error_kw={"elinewidth": 0.8, "capsize": 2}
            )
            for place, mean in zip(places, means, strict=True):
                ax.annotate(f"{mean:.1f}", (0, place), xytext=(3, 0), textcoords="offset points", va="center",
                            color="white", fontsize=7)  # fmt: skip
            ax.set_title(f"{stream}, {measure.label}")
            ax.set_xlabel("accuracy, percent")
            ax.set_yticks(range(len(rows)), rows)
        axes[0].invert_yaxis()
        _caption(figure, statement)
        return save_figure(figure, folder / experiment.name)


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
        _caption(figure, statement)
        return save_figure(figure, folder / "overlap")


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
        _caption(figure, statement)
        return save_figure(figure, folder / "tsne")


def _mean_pair(value: Tensor) -> float:
    count = len(value)
    return float((value.sum() - value.trace()) / max(count * (count - 1), 1))


def _caption(figure: Any, statement: str) -> None:
    """Write the scale under the figure: a picture travels without its text."""
    width = max(40, int(figure.get_figwidth() * 21))
    figure.supxlabel("\n".join(textwrap.wrap(statement, width)), fontsize=6.5, x=0.01, ha="left")
