"""Accuracy on every task seen so far, class-incremental and task-incremental, from the same scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def class_il(scores: Tensor, y: Tensor) -> float:
    """Percent of rows whose best score over all classes seen is the true one; scores (N, C), y (N,)."""
    return _percent(scores.argmax(1) == y)


def task_il(scores: Tensor, y: Tensor, classes: range) -> float:
    """Percent of rows whose best score inside the true task is the true one; scores (N, C), y (N,)."""
    return _percent(scores[:, classes.start : classes.stop].argmax(1) + classes.start == y)


def _percent(right: Tensor) -> float:
    return 100.0 * int(right.sum()) / max(len(right), 1)


def accuracy_rows(
    scores: Sequence[Tensor], labels: Sequence[Tensor], classes: Sequence[range], num_tasks: int
) -> tuple[list[float | None], list[float | None]]:
    """Return the rows of the two accuracy matrices, with None for the tasks still to come."""
    rest: list[float | None] = [None] * (num_tasks - len(scores))
    with torch.no_grad():
        in_class = [class_il(s, y) for s, y in zip(scores, labels, strict=True)]
        in_task = [task_il(s, y, c) for s, y, c in zip(scores, labels, classes, strict=True)]
    return [*in_class, *rest], [*in_task, *rest]
