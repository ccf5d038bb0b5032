"""Evaluation after each task: rows of the accuracy matrices, and the geometry of the features."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gplasc.evaluation.accuracy import accuracy_rows
from gplasc.evaluation.geometry import append_diagnosis, diagnose
from gplasc.learning.context import FORWARD_ROWS, Context
from gplasc.learning.pool import Pool
from gplasc.settings.types import Config
from gplasc.streams import Samples, Task

_RESULTS = ("class_il", "task_il", "geometry", "timings")


class Evaluator:
    """Evaluates the tasks seen so far, and keeps the results of all tasks.

    Attributes:
        class_il: Row t: class-IL accuracy, percent, on each task evaluated after task t.
        task_il: The same for task-IL.
        geometry: What `gplasc.evaluation.geometry.diagnose` says after each task.
        timings: For each task, the seconds of each phase.
    """

    def __init__(self, config: Config) -> None:
        self.class_il: list[list[float]] = []
        self.task_il: list[list[float]] = []
        self.geometry: list[dict[str, Any]] = []
        self.timings: list[dict[str, float]] = []
        self._config = config
        self._means_when_learned: list[Tensor] = []

    def evaluate(self, ctx: Context, tasks: Sequence[Task], known: Mapping[str, Any]) -> None:
        """Evaluate the predictor on the tasks, the last of which was learned just now.

        The geometry is compared with what is ``known``, see `Plugin.diagnostics`.
        """
        assert ctx.predictor is not None
        scores: list[Tensor] = []
        labels: list[Tensor] = []
        means: list[Tensor] = []
        for group in _groups([evaluation_samples(task, self._config) for task in tasks]):
            together = ctx.features(group[0] if len(group) == 1 else Pool(group))
            for samples, features in zip(group, together.split([len(s) for s in group]), strict=True):
                y = ctx.to_device(samples.y)
                with torch.no_grad():
                    scores.append(ctx.predictor(features))
                unit = nn.functional.normalize(features, dim=1)
                means.append(_class_means(unit, y, tasks[len(labels)].classes).cpu())
                labels.append(y)
        in_class, in_task = accuracy_rows(scores, labels, [task.classes for task in tasks])
        self.class_il.append(in_class)
        self.task_il.append(in_task)
        self._means_when_learned.append(means[-1])
        append_diagnosis(self.geometry, diagnose(means, self._means_when_learned[-len(means) :], **known))

    def state_dict(self) -> dict[str, Any]:
        """Return the results."""
        return {
            # As text: torch.save calls a function for every number, and there are more with every task.
            **{name: json.dumps(getattr(self, name)) for name in _RESULTS},
            "means_when_learned": torch.cat(self._means_when_learned or [torch.zeros(0)]),
            "means_rows": [len(means) for means in self._means_when_learned],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name in _RESULTS:
            setattr(self, name, json.loads(state[name]))
        parts = state["means_when_learned"].split(state["means_rows"])
        self._means_when_learned = [rows.clone() for rows in parts]


def _class_means(z: Tensor, y: Tensor, classes: range) -> Tensor:
    """Return the mean (len(classes), D) of the rows z (N, D) of each class."""
    return torch.stack([z[y == label].mean(0) for label in classes])


def evaluation_samples(task: Task, config: Config) -> Samples:
    """Return the split that is evaluated on: test, or validation taken from train."""
    if config.data.evaluate_on == "validation":
        assert task.validation is not None
        return task.validation
    return task.test


def _groups(samples: Sequence[Samples]) -> list[list[Samples]]:
    """Group neighbors that fit into one forward pass together: many small tasks take few passes."""
    groups: list[list[Samples]] = []
    rows = FORWARD_ROWS
    for one in samples:
        if rows + len(one) > FORWARD_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(one)
        rows += len(one)
    return groups
