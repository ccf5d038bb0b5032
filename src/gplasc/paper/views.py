"""What is measured of finished runs and drawn: metrics, times, overlaps of tasks, t-SNE."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from gplasc._io.files import write_atomic
from gplasc.evaluation.embedding import silhouette, tsne
from gplasc.evaluation.overlap import TaskOverlap, task_overlap
from gplasc.paper import figures
from gplasc.paper.definition import Experiment, PlannedRun
from gplasc.paper.summary import Entry, Values, default_measures
from gplasc.results.group import Measure
from gplasc.results.record import Record
from gplasc.runs.restore import Restored

_DRAWS = 5000
_POINTS = 400  # of each class, in a t-SNE picture

_Restore = Callable[[PlannedRun], Restored]
_Records = Mapping[str, Record]


class View:
    """A way to look at an experiment's runs: metrics of the accuracy matrix, as a table and perhaps a figure."""

    def __init__(self, figure: figures.Draw | None = None) -> None:
        self._figure = figure

    def remarks(self) -> list[str]:
        """Return what was found out while measuring and belongs below the table."""
        return []

    def measure(
        self, experiment: Experiment, runs: Sequence[PlannedRun], records: _Records, restore: _Restore
    ) -> Values:
        """Measure every run that has a record.

        Args:
            experiment: The experiment.
            runs: Its runs.
            records: Records of those that are complete, by run id.
            restore: Opens a complete run.

        Returns:
            The values of each measure, by run id.
        """
        measures = default_measures(experiment)
        return {
            run: {m: float(record["metrics"][m.scenario][m.metric]) for m in measures}
            for run, record in records.items()
        }

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Write figures, and the numbers behind them, into a folder, and return their paths."""
        return self._figure(experiment, entries, statement, folder) if self._figure else []


class _Time(View):
    """Seconds for each task, evaluation excluded, and for all."""

    def measure(
        self, experiment: Experiment, runs: Sequence[PlannedRun], records: _Records, restore: _Restore
    ) -> Values:
        """Add up the phases that belong to learning."""
        values = {}
        for run, record in records.items():
            seconds = [
                sum(spent for phase, spent in task.items() if phase != "evaluation")
                for task in record["timings"]
            ]
            values[run] = {
                Measure("seconds", f"task {task}", point=str(task)): spent
                for task, spent in enumerate(seconds, 1)
            }
            values[run][Measure("seconds", "all tasks", point="all")] = sum(seconds)
        return values


class _TaskOverlaps(View):
    """Overlap of the tasks' feature densities: mean and largest over pairs, and the pairs the experiment names."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], TaskOverlap] = {}

    def remarks(self) -> list[str]:
        """Return the error of the integrals, and how much of the features the projection shows."""
        if not self._found:
            return []
        error = max(float(found.error.max()) for found in self._found.values())
        kept = sorted(found.explained for found in self._found.values())
        return [
            f"standard error of the Monte-Carlo integral of a pair of tasks: at most {error:.4f}",
            f"the three axes hold {kept[0]:.0%} to {kept[-1]:.0%} of the variance of the features",
        ]

    def measure(
        self, experiment: Experiment, runs: Sequence[PlannedRun], records: _Records, restore: _Restore
    ) -> Values:
        """Compute the features of the test images and integrate."""
        values: dict[str, dict[Measure, float]] = {}
        for run in runs:
            if run.run_id not in records:
                continue
            found = run_overlap(restore(run))
            self._found[run.row.name, run.seed] = found
            pairs = pairs_of(found)
            values[run.run_id] = {
                Measure("overlap", "mean of all pairs", point="mean"): float(pairs.mean()),
                Measure("overlap", "largest pair", point="largest"): float(pairs.max()),
            }
            for pair in experiment.pairs:
                first, second = (int(number) for number in pair.split("-"))
                measure = Measure("overlap", f"tasks {first} and {second}", point=pair)
                values[run.run_id][measure] = float(found.value[first - 1, second - 1])
        return values

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Draw a heat map for each row, averaged over seeds, and write every pair with its error."""
        by_row: dict[str, list[TaskOverlap]] = {}
        for (row, _), found in self._found.items():
            by_row.setdefault(row, []).append(found)
        content = [
            {
                "row": row,
                "seed": seed,
                "overlap": found.value.tolist(),
                "error": found.error.tolist(),
                "explained": found.explained,
            }
            for (row, seed), found in self._found.items()
        ]
        paths = [
            write_atomic(folder / "overlap.json", json.dumps({"scale": statement, "runs": content}) + "\n")
        ]
        if by_row:
            means = {row: torch.stack([f.value for f in found]).mean(0) for row, found in by_row.items()}
            # The error of a mean of independent integrals.
            errors = {
                row: torch.stack([f.error for f in found]).square().sum(0).sqrt() / len(found)
                for row, found in by_row.items()
            }
            paths += figures.heat_maps(means, errors, statement, folder)
        return paths


def run_overlap(opened: Restored) -> TaskOverlap:
    """Return the overlap of the tasks of a finished run, measured with the samples that it was evaluated on."""
    features = [opened.features(opened.evaluation_samples(task)) for task in opened.stream]
    generator = torch.Generator().manual_seed(opened.config.seed)
    return task_overlap(features, generator=generator, draws=_DRAWS)


def pairs_of(found: TaskOverlap) -> Tensor:
    """Return the overlap of each pair of tasks once: (pairs,)."""
    return found.value[torch.ones_like(found.value).tril(-1).bool()]


class _Embeddings(View):
    """One class of each task: t-SNE of the first seed, silhouettes of all."""

    def __init__(self) -> None:
        self._chosen: dict[str, tuple[Tensor, Tensor, tuple[str, ...]]] = {}

    def measure(
        self, experiment: Experiment, runs: Sequence[PlannedRun], records: _Records, restore: _Restore
    ) -> Values:
        """Compute the features of the chosen classes."""
        values = {}
        for run in runs:
            if run.run_id not in records:
                continue
            opened = restore(run)
            rows, labels, names = [], [], []
            for task, place in zip(opened.stream, experiment.classes, strict=True):
                samples = opened.evaluation_samples(task)
                index = (samples.y == task.classes[place]).nonzero().flatten()[:_POINTS]
                rows.append(opened.features(samples.take(index)))
                labels.append(torch.full((len(index),), task.index))
                names.append(task.class_names[place])
            x, y = torch.cat(rows), torch.cat(labels)
            self._chosen.setdefault(run.row.name, (x, y, tuple(names)))
            values[run.run_id] = {
                Measure("silhouette", "features as they are", point="raw"): silhouette(x, y),
                Measure("silhouette", "features on the sphere", point="sphere"): silhouette(
                    F.normalize(x, dim=1), y
                ),
            }
        return values

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
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
        text = json.dumps({"scale": statement, "classes": names, "pictures": content}) + "\n"
        paths = [write_atomic(folder / "tsne.json", text)]
        return paths + (figures.scatters(pictures, names, statement, folder) if pictures else [])


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
