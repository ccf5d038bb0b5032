"""Metrics as pure functions of the accuracy matrix, each with its definition.

``matrix[t][i]`` is the accuracy in percent on task i after learning task t; entries of tasks not yet learned are None.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

Matrix = Sequence[Sequence[float | None]]

SCENARIOS = {"class_il": "class-IL", "task_il": "task-IL"}
"""Display names of the scenarios: is the class sought among all classes seen, or among those of the image's task?"""


def summarize(matrix: Matrix, samples: Sequence[int]) -> dict[str, float]:
    """Return all metrics of an accuracy matrix by name.

    - ``final_accuracy``: mean over tasks of the last row, in percent.
    - ``final_accuracy_by_sample``: the same with each task weighted by its test samples.
    - ``average_incremental_accuracy``: mean over rows of each row's mean over the tasks learned until then.
    - ``forgetting``: mean over all tasks but the last of the best accuracy before the last task minus the final one
      (Chaudhry et al. 2018): for task i the maximum is over rows i to T - 2. In percentage points, negative if the
      last task improved earlier ones.
    - ``forgetting_nonnegative``: the same with the last row included in the maximum, so that it is never negative.
    - ``backward_transfer``: mean over all tasks but the last of the last row minus the accuracy when the task was
      learned.

    The last three are 0 for a single task. ``samples`` are the numbers of test samples of the tasks.

    >>> summarize([[90.0, None], [60.0, 80.0]], [100, 300])["forgetting"]
    30.0
    """
    last = len(matrix) - 1
    final = [_at(matrix, last, task) for task in range(last + 1)]
    best = [[_at(matrix, after, task) for after in range(task, last)] for task in range(last)]
    return {
        "final_accuracy": fmean(final),
        "final_accuracy_by_sample": sum(a * n for a, n in zip(final, samples[: last + 1], strict=True))
        / sum(samples[: last + 1]),
        "average_incremental_accuracy": fmean(
            fmean(_at(matrix, after, task) for task in range(after + 1)) for after in range(last + 1)
        ),
        "forgetting": _mean(max(row) - end for row, end in zip(best, final, strict=False)),
        "forgetting_nonnegative": _mean(max(*row, end) - end for row, end in zip(best, final, strict=False)),
        "backward_transfer": _mean(end - row[0] for row, end in zip(best, final, strict=False)),
    }


def _at(matrix: Matrix, after: int, task: int) -> float:
    value = matrix[after][task]
    if value is None:
        raise ValueError(f"the accuracy on task {task} after task {after} is missing from the matrix")
    return value


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return fmean(known) if known else 0.0
