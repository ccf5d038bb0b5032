"""Assignment of samples to the prepared directions of the tasks."""

import torch
from torch import Tensor

from gplasc.losses import kernels
from gplasc.losses.checks import check_positive, check_tensor, check_unit


def assignment_loss(features: Tensor, tasks: Tensor, vertices: Tensor, *, temperature: float = 0.1) -> Tensor:
    """Cross-entropy of the cosines between features and vertices against the task of each row.

        loss_i = -log softmax_t(<n(f_i), v_t> / temperature)[task_i],      n(x) = x / |x|

    The result is the mean over the tasks present of the mean of `loss_i` over the rows of the task, so that all tasks
    have the same weight, however many rows each has. Without rows, and with a single vertex, the loss is 0 and part of
    the graph.

    Args:
        features: Features of shape (N, D); they are normalized here.
        tasks: The task of each row, integers of shape (N,) in [0, T).
        vertices: The prepared directions, unit rows of shape (T, D). They receive a gradient only if they require one.
        temperature: Divides the cosines.

    Returns:
        The loss, a tensor of shape ().

    >>> round(assignment_loss(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), temperature=1.0).item(), 4)
    0.3133
    """
    check_tensor("features", features)
    check_tensor("tasks", tasks, (len(features),), "labels")
    check_tensor("vertices", vertices, ("T", features.shape[1]))
    check_positive("temperature", temperature)
    if len(vertices) == 0:
        raise ValueError("vertices must have T >= 1 rows.")
    check_unit("assignment_loss", "vertices", vertices)
    if tasks.device.type == "cpu" and len(tasks) > 0 and not torch.compiler.is_compiling():
        low, high = int(tasks.min()), int(tasks.max())
        if low < 0 or high >= len(vertices):
            raise ValueError(
                f"tasks must be in [0, {len(vertices)}), one vertex per task, got {low} to {high}."
            )
    with kernels.full_precision(features):
        return kernels.assignment(kernels.unit(features), tasks, vertices, temperature)
