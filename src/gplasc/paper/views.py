"""What is measured of finished runs and drawn: metrics, times, overlaps of tasks, t-SNE."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from gplasc._io.files import write_atomic
from gplasc.evaluation.embedding import silhouette, tsne
from gplasc.evaluation.overlap import TaskOverlap
from gplasc.paper import figures
from gplasc.results.group import Group, Measure
from gplasc.study.experiment import Experiment
from gplasc.study.overlap import pairs_of, run_overlap
from gplasc.study.study import Study

_POINTS = 400  # of each class, in a t-SNE picture


class View:
    """A way to look at an experiment's runs: metrics of the accuracy matrix, as a table and perhaps a figure."""

    def __init__(self, figure: figures.Draw | None = None) -> None:
        self._figure = figure

    def remarks(self) -> list[str]:
        """Return what was found out while measuring and belongs below the table."""
        return []

    def measure(self, experiment: Experiment, study: Study) -> list[Measure]:
        """Measure every complete run, add the numbers to those of the study, and return what is shown of them."""
        return experiment.measures

    def draw(
        self, experiment: Experiment, groups: Sequence[Group], measures: Sequence[Measure], folder: Path
    ) -> list[Path]:
        """Write figures, and the numbers behind them, into a folder, and return their paths."""
        return self._figure(experiment, groups, measures, folder) if self._figure else []


class _Time(View):
    """Seconds for each task, evaluation excluded, and for all."""

    def measure(self, experiment: Experiment, study: Study) -> list[Measure]:
        """Add up the phases that belong to learning."""
        measures: dict[Measure, None] = {}
        for record in study.records:
            seconds = [
                sum(spent for phase, spent in task.items() if phase != "evaluation")
                for task in record.timings
            ]
            numbers = {
                Measure("seconds", f"task {task}", point=str(task)): spent
                for task, spent in enumerate(seconds, 1)
            }
            numbers[Measure("seconds", "all tasks", point="all")] = sum(seconds)
            study.numbers[record.run_id] |= numbers
            measures |= dict.fromkeys(numbers)
        return list(measures) or experiment.measures


class _TaskOverlaps(View):
    """Overlap of the tasks' feature densities: mean and largest over pairs, and the pairs the experiment names."""

    def __init__(self) -> None:
        self._overlaps: dict[tuple[str, int], TaskOverlap] = {}

    def remarks(self) -> list[str]:
        """Return the error of the integrals, and how much of the features the projection shows."""
        if not self._overlaps:
            return []
        error = max(float(found.error.max()) for found in self._overlaps.values())
        kept = sorted(found.explained for found in self._overlaps.values())
        return [
            f"standard error of the Monte-Carlo integral of a pair of tasks: at most {error:.4f}",
            f"the three axes hold {kept[0]:.0%} to {kept[-1]:.0%} of the variance of the features",
        ]

    def measure(self, experiment: Experiment, study: Study) -> list[Measure]:
        """Compute the features of the test images and integrate."""
        measures: dict[Measure, None] = {}
        for cell in study.complete_cells():
            overlap = run_overlap(study.restore(cell))
            self._overlaps[cell.row, cell.seed] = overlap
            pairs = pairs_of(overlap)
            numbers = {
                Measure("overlap", "mean of all pairs", point="mean"): float(pairs.mean()),
                Measure("overlap", "largest pair", point="largest"): float(pairs.max()),
            }
            for pair in experiment.pairs:
                first, second = (int(number) for number in pair.split("-"))
                measure = Measure("overlap", f"tasks {first} and {second}", point=pair)
                numbers[measure] = float(overlap.value[first - 1, second - 1])
            study.numbers[cell.run_id] |= numbers
            measures |= dict.fromkeys(numbers)
        return list(measures) or experiment.measures

    def draw(
        self, experiment: Experiment, groups: Sequence[Group], measures: Sequence[Measure], folder: Path
    ) -> list[Path]:
        """Draw a heat map for each row, averaged over seeds, and write every pair with its error."""
        by_row: dict[str, list[TaskOverlap]] = {}
        for (row, _), found in self._overlaps.items():
            by_row.setdefault(row, []).append(found)
        content = [
            {
                "row": row,
                "seed": seed,
                "overlap": found.value.tolist(),
                "error": found.error.tolist(),
                "explained": found.explained,
            }
            for (row, seed), found in self._overlaps.items()
        ]
        paths = [
            write_atomic(
                folder / "overlap.json", json.dumps({"scale": experiment.statement, "runs": content}) + "\n"
            )
        ]
        if by_row:
            means = {row: torch.stack([f.value for f in found]).mean(0) for row, found in by_row.items()}
            # The error of a mean of independent integrals.
            errors = {
                row: torch.stack([f.error for f in found]).square().sum(0).sqrt() / len(found)
                for row, found in by_row.items()
            }
            paths += figures.heat_maps(means, errors, experiment.statement, folder)
        return paths


class _Embeddings(View):
    """One class of each task: t-SNE of the first seed, silhouettes of all."""

    def __init__(self) -> None:
        self._chosen: dict[str, tuple[Tensor, Tensor, tuple[str, ...]]] = {}

    def measure(self, experiment: Experiment, study: Study) -> list[Measure]:
        """Compute the features of the chosen classes."""
        raw = Measure("silhouette", "features as they are", point="raw")
        sphere = Measure("silhouette", "features on the sphere", point="sphere")
        for cell in study.complete_cells():
            opened = study.restore(cell)
            rows, labels, names = [], [], []
            for task, place in zip(opened.stream, experiment.classes, strict=True):
                samples = opened.evaluation_samples(task)
                index = (samples.y == task.classes[place]).nonzero().flatten()[:_POINTS]
                rows.append(opened.features(samples.take(index)))
                labels.append(torch.full((len(index),), task.index))
                names.append(task.class_names[place])
            x, y = torch.cat(rows), torch.cat(labels)
            self._chosen.setdefault(cell.row, (x, y, tuple(names)))
            numbers = {raw: silhouette(x, y), sphere: silhouette(F.normalize(x, dim=1), y)}
            study.numbers[cell.run_id] |= numbers
        return [raw, sphere]

    def draw(
        self, experiment: Experiment, groups: Sequence[Group], measures: Sequence[Measure], folder: Path
    ) -> list[Path]:
        """Draw features as they are and mapped to the sphere, and write the coordinates."""
        pictures: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        names: tuple[str, ...] = ()
        for row, (x, y, names) in self._chosen.items():  # noqa: B007
            pictures[row, "as they are"] = (tsne(x), y)
            pictures[row, "on the sphere"] = (tsne(F.normalize(x, dim=1)), y)
        content = [
            {"row": row, "features": kind, "x": flat.tolist(), "task": y.tolist()}
            for (row, kind), (flat, y) in pictures.items()
        ]
        text = json.dumps({"scale": experiment.statement, "classes": names, "pictures": content}) + "\n"
        paths = [write_atomic(folder / "tsne.json", text)]
        return paths + (figures.scatters(pictures, names, experiment.statement, folder) if pictures else [])


def find_view(name: str) -> View:
    """Return the view of an experiment."""
    views: dict[str, Callable[[], View]] = {
        "table": View,
        "curves": lambda: View(figures.curves),
        "bars": lambda: View(figures.bars),
        "time": _Time,
        "overlap": _TaskOverlaps,
        "tsne": _Embeddings,
    }
    return views[name]()
