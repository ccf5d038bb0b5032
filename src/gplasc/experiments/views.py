"""What is measured of finished runs and drawn: metrics, times, overlaps of tasks, t-SNE."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from gplasc.evaluation.embedding import silhouette, tsne, unit
from gplasc.evaluation.overlap import TaskOverlap, task_overlap
from gplasc.experiments import figures
from gplasc.experiments.grid import Cell, Experiment
from gplasc.experiments.summary import Entry, Measure, Values, default_measures
from gplasc.files import write_atomic
from gplasc.restore import Restored

DRAWS = 5000
POINTS = 400  # of each class, in a t-SNE picture

Restore = Callable[[Cell], Restored]
Records = Mapping[str, dict[str, Any]]


class View(Protocol):
    """A way to look at an experiment's runs."""

    draws: bool
    """Whether there are figures, so that a missing drawing library is found before the runs are computed."""

    def remarks(self) -> list[str]:
        """Return what was found out while measuring and belongs under the table."""

    def measure(
        self, experiment: Experiment, cells: Sequence[Cell], records: Records, restore: Restore
    ) -> Values:
        """Measure every run that has a record."""

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Write figures, and the numbers behind them, into a folder."""


class Metrics:
    """Metrics of the accuracy matrix, as a table and perhaps a figure."""

    def __init__(self, picture: figures.Picture | None = None) -> None:
        self._picture = picture
        self.draws = picture is not None

    def remarks(self) -> list[str]:
        """Return nothing."""
        return []

    def measure(
        self, experiment: Experiment, cells: Sequence[Cell], records: Records, restore: Restore
    ) -> Values:
        """Read the metric of each scenario from the records."""
        measures = default_measures(experiment)
        return {
            run: {m: float(record["metrics"][m.scenario][m.metric]) for m in measures}
            for run, record in records.items()
        }

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Draw the figure, if there is one."""
        return self._picture(experiment, entries, statement, folder) if self._picture else []


class Time:
    """Seconds for each task, evaluation excluded, and for all."""

    draws = False

    def remarks(self) -> list[str]:
        """Return nothing."""
        return []

    def measure(
        self, experiment: Experiment, cells: Sequence[Cell], records: Records, restore: Restore
    ) -> Values:
        """Add up the phases that belong to learning."""
        values = {}
        for run, record in records.items():
            seconds = [
                sum(spent for phase, spent in task.items() if phase != "evaluation")
                for task in record["timings"]
            ]
            values[run] = {
                Measure("seconds", f"task {task + 1}", point=str(task + 1)): spent
                for task, spent in enumerate(seconds)
            }
            values[run][Measure("seconds", "all tasks", point="all")] = sum(seconds)
        return values

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Draw nothing."""
        return []


@dataclass
class Overlaps:
    """Overlap of the tasks' feature densities: mean and largest over pairs, and the pairs the grid names."""

    found: dict[tuple[str, int], TaskOverlap] = field(default_factory=dict)
    draws: bool = True

    def remarks(self) -> list[str]:
        """Return the error of the integrals, and how much of the features the projection shows."""
        if not self.found:
            return []
        error = max(float(found.error.max()) for found in self.found.values())
        kept = sorted(found.explained for found in self.found.values())
        return [
            f"standard error of the Monte-Carlo integral of a pair of tasks: at most {error:.4f}",
            f"the three axes hold {kept[0]:.0%} to {kept[-1]:.0%} of the variance of the features",
        ]

    def measure(
        self, experiment: Experiment, cells: Sequence[Cell], records: Records, restore: Restore
    ) -> Values:
        """Compute the features of the test images and integrate."""
        values: dict[str, dict[Measure, float]] = {}
        for cell in cells:
            if cell.run_id not in records:
                continue
            run = restore(cell)
            features = [run.features(run.evaluation_samples(task)) for task in run.stream]
            found = task_overlap(features, generator=torch.Generator().manual_seed(cell.seed), draws=DRAWS)
            self.found[cell.row.name, cell.seed] = found
            pairs = found.value[torch.ones_like(found.value).tril(-1).bool()]
            values[cell.run_id] = {
                Measure("overlap", "mean of all pairs", point="mean"): float(pairs.mean()),
                Measure("overlap", "largest pair", point="largest"): float(pairs.max()),
            }
            for pair in experiment.pairs:
                first, second = (int(number) for number in pair.split("-"))
                measure = Measure("overlap", f"tasks {first} and {second}", point=pair)
                values[cell.run_id][measure] = float(found.value[first - 1, second - 1])
        return values

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Draw a heat map for each row, averaged over seeds, and write every pair with its error."""
        by_row: dict[str, list[TaskOverlap]] = {}
        for (row, _), found in self.found.items():
            by_row.setdefault(row, []).append(found)
        content = [
            {
                "row": row,
                "seed": seed,
                "overlap": found.value.tolist(),
                "error": found.error.tolist(),
                "explained": found.explained,
            }
            for (row, seed), found in self.found.items()
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


@dataclass
class Embeddings:
    """One class of each task: t-SNE of the first seed, silhouettes of all."""

    chosen: dict[str, tuple[Tensor, Tensor, tuple[str, ...]]] = field(default_factory=dict)
    draws: bool = True

    def remarks(self) -> list[str]:
        """Return nothing."""
        return []

    def measure(
        self, experiment: Experiment, cells: Sequence[Cell], records: Records, restore: Restore
    ) -> Values:
        """Compute the features of the chosen classes."""
        values = {}
        for cell in cells:
            if cell.run_id not in records:
                continue
            run = restore(cell)
            rows, labels, names = [], [], []
            for task, place in zip(run.stream, experiment.classes, strict=True):
                samples = run.evaluation_samples(task)
                index = (samples.y == task.classes[place]).nonzero().flatten()[:POINTS]
                rows.append(run.features(samples.take(index)))
                labels.append(torch.full((len(index),), task.index))
                names.append(task.class_names[place])
            x, y = torch.cat(rows), torch.cat(labels)
            self.chosen.setdefault(cell.row.name, (x, y, tuple(names)))
            values[cell.run_id] = {
                Measure("silhouette", "features as they are", point="raw"): silhouette(x, y),
                Measure("silhouette", "features on the sphere", point="sphere"): silhouette(unit(x), y),
            }
        return values

    def draw(
        self, experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
    ) -> list[Path]:
        """Draw features as they are and mapped to the sphere, and write the coordinates."""
        pictures: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        names: tuple[str, ...] = ()
        for row, (x, y, names) in self.chosen.items():  # noqa: B007
            pictures[row, "as they are"] = (tsne(x), y)
            pictures[row, "on the sphere"] = (tsne(unit(x)), y)
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
        "table": Metrics,
        "curves": lambda: Metrics(figures.curves),
        "bars": lambda: Metrics(figures.bars),
        "time": Time,
        "overlap": Overlaps,
        "tsne": Embeddings,
    }
    return views[name]()
