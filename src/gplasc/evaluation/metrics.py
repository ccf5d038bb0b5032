"""Metrics as pure functions of the accuracy matrix, each with its definition.

``matrix[t][i]`` is the accuracy in percent on task i after learning task t; entries of tasks not yet learned are None.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

Matrix = Sequence[Sequence[float | None]]

SCENARIOS = {"class_il": "class-IL", "task_il": "task-IL"}
"""Display names of the scenarios: is the class sought among all classes seen, or among those of the image's task?"""


def _at(matrix: Matrix, after: int, task: int) -> float:
    value = matrix[after][task]
    if value is None:
        raise ValueError(f"the accuracy on task {task} after task {after} is missing from the matrix")
    return value


def final_accuracy(matrix: Matrix) -> float:
    """Mean over tasks of the last row.

    >>> final_accuracy([[90.0, None], [60.0, 80.0]])
    70.0
    """
    last = len(matrix) - 1
    return fmean(_at(matrix, last, task) for task in range(last + 1))


def final_accuracy_by_sample(matrix: Matrix, samples: Sequence[int]) -> float:
    """Mean over test samples of the last row: tasks weigh as many samples as they have.

    >>> final_accuracy_by_sample([[90.0, None], [60.0, 80.0]], [100, 300])
    75.0
    """
    last = len(matrix) - 1
    total = sum(_at(matrix, last, task) * samples[task] for task in range(last + 1))
    return total / sum(samples[: last + 1])


def average_incremental_accuracy(matrix: Matrix) -> float:
    """Mean over rows of each row's mean over the tasks learned until then.

    >>> average_incremental_accuracy([[90.0, None], [60.0, 80.0]])
    80.0
    """
    return fmean(fmean(_at(matrix, after, task) for task in range(after + 1)) for after in range(len(matrix)))


def forgetting(matrix: Matrix) -> float:
    """Mean over all tasks but the last of: the best accuracy in rows i..T-1 minus the last row (Chaudhry 2018).

    It is negative when the last task helped an earlier one; 0 for a single task.

    >>> forgetting([[90.0, None], [60.0, 80.0]]), forgetting([[60.0, None], [90.0, 80.0]])
    (30.0, -30.0)
    """
    return _forgetting(matrix, rows=len(matrix) - 1)


def forgetting_nonnegative(matrix: Matrix) -> float:
    """Like `forgetting`, but the best accuracy may be that of the last row, so that it is never below 0.

    >>> forgetting_nonnegative([[60.0, None], [90.0, 80.0]])
    0.0
    """
    return _forgetting(matrix, rows=len(matrix))


def _forgetting(matrix: Matrix, rows: int) -> float:
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return fmean(
        max(_at(matrix, after, task) for after in range(task, rows)) - _at(matrix, last, task)
        for task in range(last)
    )


def backward_transfer(matrix: Matrix) -> float:
    """Mean over all tasks but the last of: the last row minus the accuracy when the task was just learned.

    >>> backward_transfer([[90.0, None], [60.0, 80.0]])
    -30.0
    """
    last = len(matrix) - 1
    return fmean(_at(matrix, last, task) - _at(matrix, task, task) for task in range(last)) if last else 0.0


def summarize(matrix: Matrix, samples: Sequence[int]) -> dict[str, float]:
    """Return every metric by name; ``samples`` are the numbers of test samples of the tasks."""
    return {
        "final_accuracy": final_accuracy(matrix),
        "final_accuracy_by_sample": final_accuracy_by_sample(matrix, samples),
        "average_incremental_accuracy": average_incremental_accuracy(matrix),
        "forgetting": forgetting(matrix),
        "forgetting_nonnegative": forgetting_nonnegative(matrix),
        "backward_transfer": backward_transfer(matrix),
    }
