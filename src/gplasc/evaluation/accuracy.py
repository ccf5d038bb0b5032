"""Class-incremental and task-incremental accuracy on each task seen so far, from the same scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def class_il(scores: Tensor, y: Tensor) -> float:
    """Return the accuracy among all classes seen.

    Args:
        scores: Class scores of shape (N, C).
        y: Labels of shape (N,).

    Returns:
        The percentage of rows whose highest score is that of the label; 0 without rows.
    """
    return _percent(scores.argmax(1) == y)


def task_il(scores: Tensor, y: Tensor, classes: range) -> float:
    """Return the accuracy among the classes of the true task.

    Args:
        scores: Class scores of shape (N, C).
        y: Labels of shape (N,), all of one task.
        classes: The classes of the task.

    Returns:
        The percentage of rows whose highest score among `classes` is that of the label; 0 without rows.
    """
    return _percent(scores[:, classes.start : classes.stop].argmax(1) + classes.start == y)


def _percent(right: Tensor) -> float:
    return 100.0 * int(right.sum()) / max(len(right), 1)


def accuracy_rows(
    scores: Sequence[Tensor], labels: Sequence[Tensor], classes: Sequence[range]
) -> tuple[list[float], list[float]]:
    """Return the next rows of the two accuracy matrices.

    Args:
        scores: For each task seen, class scores of shape (N_t, C).
        labels: For each task seen, labels of shape (N_t,).
        classes: For each task seen, its classes.

    Returns:
        The class-incremental and the task-incremental row, in percent, an entry for each task seen.
    """
    with torch.no_grad():
        in_class = [class_il(s, y) for s, y in zip(scores, labels, strict=True)]
        in_task = [task_il(s, y, c) for s, y, c in zip(scores, labels, classes, strict=True)]
    return in_class, in_task
