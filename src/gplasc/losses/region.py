"""The two losses that define the region of a task: its size (range) and its center (position)."""

from typing import Literal

from torch import Tensor

from gplasc.losses import kernels
from gplasc.losses.checks import check_choice, check_tensor, check_unit
from gplasc.losses.kernels import RangeForm, full_precision, promote

PositionTarget = Literal["unit", "scaled"]
"""The target of `position_loss`."""
_Over = Literal["mean", "sum"]


def range_loss(
    z: Tensor, y: Tensor, k: float | Tensor, *, form: RangeForm = "hinge", reduction: _Over = "mean"
) -> Tensor:
    """Penalize pairs of different classes with a cosine below k (GPLASC, L_range).

        mean over ordered pairs (i, j), y_i != y_j, of g(x_ij),      x_ij = k - <z_i, z_j>

    The forms "softplus" and "leaky_relu" also act on pairs above the threshold; "leaky_relu" can be negative. Pass rows
    of one task only: rows of several tasks would be moved toward each other. Without a pair the loss is 0 and part of
    the graph.

    Args:
        z: Unit rows of one task, shape (N, D).
        y: Integer labels of shape (N,).
        k: The threshold, a number in [-1, 1] or a tensor of shape (), which receives no gradient.
        form: g(x): "hinge" max(0, x); "squared_hinge" max(0, x) ** 2; "softplus" log(1 + exp(x)); "leaky_relu" x, or
            0.1 x if x is negative.
        reduction: "mean" or "sum" over the pairs.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> range_loss(z, torch.tensor([0, 1]), 0.25)
    tensor(0.2500)
    """
    check_tensor("z", z)
    check_tensor("y", y, (len(z),), "labels")
    check_choice("form", form, RangeForm)
    check_choice("reduction", reduction, _Over)
    if isinstance(k, Tensor):
        k = k.detach()
    elif not -1 <= k <= 1:
        raise ValueError(f"k is a cosine and must be in [-1, 1], got {k}.")
    check_unit("range_loss", "z", z)
    with full_precision(z):
        return kernels.range_pairs(promote(z), y, k, form, reduction=reduction).loss


def position_loss(
    z: Tensor,
    y: Tensor,
    center: Tensor,
    *,
    target: PositionTarget = "unit",
    norm: float | Tensor | None = None,
) -> Tensor:
    """Distance between the center of a task, the mean of its class means P, and its vertex (GPLASC, L_position).

    The norm of the center of several classes is less than 1, so with target "unit" the loss cannot become 0 and moves
    the classes of the task toward each other. With target "scaled" and norm = `Region.center_norm` it is 0 where the
    range loss is 0 too. Without rows the loss is 0 and part of the graph.

    Args:
        z: Unit rows of one task, shape (N, D).
        y: Integer labels of shape (N,).
        center: The vertex of shape (D,).
        target: "unit", |P - center| ** 2 as published; "scaled", |P - norm * center| ** 2.
        norm: The norm of the target "scaled".
    """
    check_tensor("z", z)
    check_unit("position_loss", "z", z)
    check_tensor("y", y, (len(z),), "labels")
    check_tensor("center", center, (z.shape[1],))
    check_choice("target", target, PositionTarget)
    if target == "scaled" and norm is None:
        raise ValueError('target "scaled" needs norm: pass Region.center_norm, or choose "unit".')
    with full_precision(z):
        z = promote(z)
        if len(z) == 0:
            return z.sum() * 0.0
        mean = kernels.task_center(z, y)
        return kernels.position(mean, center.to(mean.dtype), norm if target == "scaled" else None)
