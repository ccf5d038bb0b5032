"""An experiment from its runs to tables and figures: metrics, times, overlaps of tasks, t-SNE."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gplasc._io.display import Display
from gplasc._io.files import write_atomic
from gplasc.evaluation.embedding import silhouette, tsne
from gplasc.evaluation.overlap import TaskOverlap
from gplasc.report.charts import Chart, Series, write_charts
from gplasc.report.heatmap import HeatMap, write_maps
from gplasc.report.style import color, marker, paper_style, save_figure
from gplasc.results.group import Group, Measure
from gplasc.settings.presets import row_name
from gplasc.study.cell import Executor
from gplasc.study.compute import print_failures
from gplasc.study.experiment import Experiment, scale_statement
from gplasc.study.study import Study
from gplasc.study.tables import result_tables, write_tables

_POINTS = 400  # of each class, in a t-SNE picture


class _View:
    """A way to look at the runs of an experiment: metrics of the accuracy matrix, as a table without a figure."""

    def __init__(self, experiment: Experiment, study: Study) -> None:
        self.experiment = experiment
        self.remarks: list[str] = []  # what was learned while measuring and belongs below the table
        measures: dict[Measure, float] = {}
        for run_id, numbers in self._measured(study):
            study.numbers[run_id] |= numbers
            measures |= numbers
        self.measures = list(measures) or experiment.measures

    def _measured(self, study: Study) -> Iterator[tuple[str, dict[Measure, float]]]:
        """Yield what only this view measures of each complete run, by run id."""
        yield from ()

    def draw(self, groups: Sequence[Group], statement: str, folder: Path) -> list[Path]:
        """Write figures with the statement on their scale, and the numbers behind them; return their paths."""
        charts = [chart for chart in self._charts(groups) if chart.drawable]
        if not charts:
            return []
        columns = len(dict.fromkeys(chart.title for chart in charts))
        stem = folder / self.experiment.name
        return write_charts(charts, stem, (".png", ".svg"), columns=columns, note=statement)

    def _charts(self, groups: Sequence[Group]) -> list[Chart]:
        return []

    def _places(self, groups: Sequence[Group]) -> Iterator[tuple[str, Measure, list[Group]]]:
        """Yield each stream with each measure, and the groups of the stream that have numbers of the measure."""
        for stream in dict.fromkeys(group.labels["stream"] for group in groups):
            for measure in self.measures:
                own = [g for g in groups if g.labels["stream"] == stream and g.by_seed(measure)]
                yield f"{stream}, {measure.label}", measure, own


class _Curves(_View):
    """Accuracy over each setting that varies: a row of charts a setting, a column a stream and scenario.

    Points are means, bars one standard deviation over seeds; the dashed line is the base without the plug-in.
    """

    def _charts(self, groups: Sequence[Group]) -> list[Chart]:
        rows = {row.name: row for row in self.experiment.rows}
        shown = [rows[group.labels["row"]].group for group in groups]
        charts = []
        for number, name in enumerate(dict.fromkeys(filter(None, shown))):
            for title, measure, own in self._places(groups):
                varied = [g for g in own if rows[g.labels["row"]].group == name]
                bases = {rows[g.labels["row"]].base for g in varied}
                values = {str(rows[g.labels["row"]].value): g.spread(measure) for g in varied}
                series = Series(row_name(name, varied[0].settings if varied else {}), values, number)
                guides = {g.spread(measure).mean: g.row for g in own if g.labels["row"] in bases}
                axes = (title, name, "accuracy, percent")
                charts.append(Chart(*axes, (series,), "", guides=guides, zero_based=True))
        return charts


class _Bars(_View):
    """The mean of each row with one standard deviation over seeds; a chart for each stream and scenario."""

    def _charts(self, groups: Sequence[Group]) -> list[Chart]:
        charts = []
        for title, measure, own in self._places(groups):
            series = Series(measure.label, {g.row: g.spread(measure) for g in own})
            charts.append(Chart(title, "", "accuracy, percent", (series,), "", "interval"))
        return charts


class _Time(_View):
    """Seconds for each task, evaluation excluded, and for all."""

    def _measured(self, study: Study) -> Iterator[tuple[str, dict[Measure, float]]]:
        for record in study.records:
            seconds = [sum(task.values()) - task.get("evaluation", 0.0) for task in record.timings]
            tasks = (Measure("seconds", f"task {n}", point=str(n)) for n in range(1, len(seconds) + 1))
            whole = {Measure("seconds", "all tasks", point="all"): sum(seconds)}
            yield record.run_id, dict(zip(tasks, seconds, strict=True)) | whole


class _Overlap(_View):
    """Overlap of the tasks' feature densities: mean and largest over pairs, and the pairs the experiment names."""

    def _measured(self, study: Study) -> Iterator[tuple[str, dict[Measure, float]]]:
        self._overlaps: dict[str, dict[int, TaskOverlap]] = {}  # by row and seed
        for cell in study.complete_cells():
            overlap = study.overlap(cell)
            self._overlaps.setdefault(cell.row, {})[cell.seed] = overlap
            numbers = {
                Measure("overlap", "mean of all pairs", point="mean"): float(overlap.pairs.mean()),
                Measure("overlap", "largest pair", point="largest"): float(overlap.pairs.max()),
            }
            for pair in self.experiment.pairs:
                first, second = (int(number) for number in pair.split("-"))
                measure = Measure("overlap", f"tasks {first} and {second}", point=pair)
                numbers[measure] = float(overlap.value[first - 1, second - 1])
            yield cell.run_id, numbers
        every = [overlap for by_seed in self._overlaps.values() for overlap in by_seed.values()]
        if every:
            error = max(float(overlap.error.max()) for overlap in every)
            kept = sorted(overlap.explained for overlap in every)
            self.remarks = [
                f"standard error of the Monte-Carlo integral of a pair of tasks: at most {error:.4f}",
                f"the three axes hold {kept[0]:.0%} to {kept[-1]:.0%} of the variance of the features",
            ]

    def draw(self, groups: Sequence[Group], statement: str, folder: Path) -> list[Path]:
        """Draw the overlap of each pair of tasks, a map a row, averaged over seeds, and write each with its error."""
        content = [
            {"row": row, "seed": seed, "overlap": one.value.tolist(), "error": one.error.tolist()}
            | {"explained": one.explained}
            for row, by_seed in self._overlaps.items()
            for seed, one in by_seed.items()
        ]
        text = json.dumps({"scale": statement, "runs": content}) + "\n"
        paths = [write_atomic(folder / "overlap.json", text)]
        maps = []
        for row, by_seed in self._overlaps.items():
            value = torch.stack([overlap.value for overlap in by_seed.values()]).mean(0)
            mean = (value.sum() - value.trace()) / max(len(value) * (len(value) - 1), 1)
            tasks = tuple(f"T{number}" for number in range(1, len(value) + 1))
            maps.append(HeatMap(f"{row}: mean {mean:.3f}", tasks, tasks, value.numpy(), digits=3))
        return paths + (write_maps(maps, folder / "overlap", (".png", ".svg"), statement) if maps else [])


class _Embeddings(_View):
    """One class of each task: t-SNE of the first seed, silhouettes of all."""

    def _measured(self, study: Study) -> Iterator[tuple[str, dict[Measure, float]]]:
        self._names: list[str] = []
        self._chosen: dict[str, tuple[Tensor, Tensor]] = {}  # features and tasks, by row
        for cell in study.complete_cells():
            opened = study.restore(cell)
            rows, labels, self._names = [], [], []
            for task, place in zip(opened.stream, self.experiment.classes, strict=True):
                samples = opened.evaluation_samples(task)
                index = (samples.y == task.classes[place]).nonzero().flatten()[:_POINTS]
                rows.append(opened.features(samples.take(index)))
                labels.append(torch.full((len(index),), task.index))
                self._names.append(task.class_names[place])
            x, y = torch.cat(rows), torch.cat(labels)
            self._chosen.setdefault(cell.row, (x, y))
            raw = Measure("silhouette", "features as they are", point="raw")
            sphere = Measure("silhouette", "features on the sphere", point="sphere")
            yield cell.run_id, {raw: silhouette(x, y), sphere: silhouette(F.normalize(x, dim=1), y)}

    def draw(self, groups: Sequence[Group], statement: str, folder: Path) -> list[Path]:
        """Draw features as they are and mapped to the sphere, and write the coordinates."""
        pictures: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        for row, (x, y) in self._chosen.items():
            pictures[row, "as they are"] = (tsne(x), y)
            pictures[row, "on the sphere"] = (tsne(F.normalize(x, dim=1)), y)
        content = [
            {"row": row, "features": kind, "x": flat.tolist(), "task": y.tolist()}
            for (row, kind), (flat, y) in pictures.items()
        ]
        whole = {"scale": statement, "classes": self._names, "pictures": content}
        paths = [write_atomic(folder / "tsne.json", json.dumps(whole) + "\n")]
        return paths + (self._draw_scatters(pictures, statement, folder) if pictures else [])

    def _draw_scatters(
        self, pictures: dict[tuple[str, str], tuple[Tensor, Tensor]], statement: str, folder: Path
    ) -> list[Path]:
        """Draw embeddings: a column for each row of the grid, a line for each kind."""
        columns, kinds = (list(dict.fromkeys(names)) for names in zip(*pictures, strict=True))
        with paper_style():
            from matplotlib.figure import Figure

            figure = Figure(figsize=(2.4 * len(columns), 2.4 * len(kinds) + 0.8), layout="constrained")
            axes = figure.subplots(len(kinds), len(columns), squeeze=False)
            for (row, kind), (flat, y) in pictures.items():
                ax = axes[kinds.index(kind)][columns.index(row)]
                look: dict[str, Any] = {"s": 6, "linewidths": 0, "alpha": 0.7, "rasterized": True}
                for task, name in enumerate(self._names):
                    x = flat[y == task].T.numpy()
                    ax.scatter(*x, color=color(task), marker=marker(task), label=name, **look)
                ax.set(xticks=[], yticks=[])
                ax.set_title(row if kind == kinds[0] else "")
                ax.set_ylabel(f"features {kind}" if row == columns[0] else "")
            handles = axes[0][0].get_legend_handles_labels()[0]
            figure.legend(handles=handles, loc="outside upper center", ncols=len(self._names), markerscale=2)
            return save_figure(figure, folder / "tsne", note=statement)


_VIEWS: dict[str, type[_View]] = {
    "table": _View,
    "curves": _Curves,
    "bars": _Bars,
    "time": _Time,
    "overlap": _Overlap,
    "tsne": _Embeddings,
}


def reproduce(
    experiment: Experiment, study: Study, executor: Executor, display: Display | None = None
) -> list[Path]:
    """Compute an experiment's runs, print its tables, and write tables and figures into ``out/NAME``.

    The study has the runs of `Experiment.cells`, or of some of them; those that failed leave gaps in the tables.
    """
    if display is not None:
        display.say(experiment.heading(study.cells))
    study.compute(executor, display)
    view = _VIEWS[experiment.view](experiment, study)
    statement, notes = scale_statement(study.cells), (*experiment.notes, *view.remarks)
    caption = experiment.model_copy(update={"statement": statement, "notes": notes})
    groups, folder = study.groups(), study.workspace.out / experiment.name
    tables = result_tables(caption, groups, view.measures)
    files = [
        *write_tables(folder, caption, groups, view.measures, tables),
        *view.draw(groups, statement, folder),
    ]
    for table in tables:
        table.print()
    print_failures(study.failures)
    print(f"written: {', '.join(map(str, files))}")
    return files
