"""Class-incremental and task-incremental accuracy on each task seen so far, from the same scores."""

from collections.abc import Sequence

from torch import Tensor


def accuracy_rows(
    scores: Sequence[Tensor], labels: Sequence[Tensor], classes: Sequence[range]
) -> tuple[list[float], list[float]]:
    """Return the next rows of the two accuracy matrices.

    A row of scores counts as correct if its highest score is that of the label: among all classes seen
    (class-incremental), or among the classes of the sample's task (task-incremental). Both rows are in percent, with an
    entry for each task seen, which is 0 without samples.

    scores: (N_t, C) class scores of each task seen; labels: (N_t,) of each; classes: those of each.
    """
    in_class, in_task = [], []
    for task_scores, y, own in zip(scores, labels, classes, strict=True):
        in_class.append(_percent(task_scores.argmax(1) == y))
        in_task.append(_percent(task_scores[:, own.start : own.stop].argmax(1) + own.start == y))
    return in_class, in_task


def _percent(right: Tensor) -> float:
    return 100.0 * int(right.sum()) / max(len(right), 1)
