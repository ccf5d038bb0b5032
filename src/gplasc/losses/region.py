"""The two losses that define the region of a task: its size (range) and its center (position)."""

from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from gplasc.losses import _inputs
from gplasc.losses._inputs import DimensionReduction
from gplasc.losses._rows import by_rows

RangeForm = Literal["hinge", "softplus", "leaky_relu", "squared_hinge"]
"""The penalty g(x) of `range_loss`."""
RangeReduction = Literal["mean", "mean_active", "sum"]
"""Over the pairs of different classes."""
PositionTarget = Literal["unit", "scaled", "cosine"]
"""The target of `position_loss`."""

_NEGATIVE_SLOPE = 0.1
_SHORTEST_CENTER = 1e-4


class RangeTerms(NamedTuple):
    """The range loss and the share of pairs of different classes below the threshold; both 0 without such pairs."""

    loss: Tensor
    active_fraction: Tensor


def range_loss(
    z: Tensor,
    y: Tensor,
    k: float | Tensor,
    *,
    form: RangeForm = "hinge",
    reduction: RangeReduction = "mean",
    gram: Tensor | None = None,
    chunk_rows: int | None = None,
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
        reduction: "mean" over the pairs, "mean_active" over the pairs with x > 0, or "sum".
        gram: The cosines `z @ z.T` of shape (N, N), if they are known already.
        chunk_rows: The number of rows of the pair matrix to compute at a time. Default: all of a batch of up to 2048.

    Returns:
        The loss, a tensor of shape ().

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit, rows are not unit rows, or an option is unknown.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> range_loss(z, torch.tensor([0, 1]), 0.25)
    tensor(0.2500)
    """
    return range_terms(z, y, k, form=form, reduction=reduction, gram=gram, chunk_rows=chunk_rows).loss


def range_terms(
    z: Tensor,
    y: Tensor,
    k: float | Tensor,
    *,
    form: RangeForm = "hinge",
    reduction: RangeReduction = "mean",
    gram: Tensor | None = None,
    chunk_rows: int | None = None,
) -> RangeTerms:
    """Return `range_loss` together with the share of pairs below the threshold (x > 0).

    Args:
        z: See `range_loss`, as for all arguments.
        y: Integer labels.
        k: The threshold.
        form: The penalty.
        reduction: The reduction over pairs.
        gram: The cosines.
        chunk_rows: The number of rows to compute at a time.

    Returns:
        Two tensors of shape ().

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit, rows are not unit rows, or an option is unknown.
    """
    _inputs.require_rows("z", z)
    rows = len(z)
    _inputs.require_labels(y, rows)
    _inputs.require_choice("form", form, get_args(RangeForm))
    _inputs.require_choice("reduction", reduction, get_args(RangeReduction))
    if isinstance(k, Tensor):
        k = k.detach()
    elif not -1 <= k <= 1:
        raise ValueError(f"k is a cosine and must be in [-1, 1], got {k}.")
    if gram is None:
        _inputs.require_unit_rows("range_loss", "z", z)
    else:
        _inputs.require_gram("gram", gram, rows)
        chunk_rows = max(1, rows)

    def block(start: int, stop: int, z: Tensor, y: Tensor, gram: Tensor | None) -> Tensor:
        x = k - (z[start:stop] @ z.T if gram is None else gram)
        different = y[start:stop, None] != y[None, :]
        total = torch.where(different, _penalty(x, form), 0.0).sum(dim=1)
        active = (different & (x > 0)).sum(dim=1)
        return torch.stack([total, different.sum(dim=1).to(z.dtype), active.to(z.dtype)], dim=1)

    with _inputs.full_precision(z):
        z = _inputs.promote(z)
        gram = None if gram is None else _inputs.promote(gram)
        if rows == 0:
            total, pairs, active = z.sum() * 0.0, z.new_zeros(()), z.new_zeros(())
        else:
            total, pairs, active = by_rows(block, rows, chunk_rows, z, y, gram).sum(dim=0).unbind()
            pairs, active = pairs.detach(), active.detach()
        if reduction == "mean":
            total = total / pairs.clamp(min=1)
        elif reduction == "mean_active":
            total = total / active.clamp(min=1)
        return RangeTerms(total, active / pairs.clamp(min=1))


def _penalty(x: Tensor, form: RangeForm) -> Tensor:
    if form == "hinge":
        return F.relu(x)
    if form == "squared_hinge":
        return F.relu(x).square()
    if form == "softplus":
        return F.softplus(x)
    return F.leaky_relu(x, _NEGATIVE_SLOPE)


def task_center(z: Tensor, y: Tensor) -> Tensor:
    """Return the mean of the class means of a task.

    All classes present have the same weight, however many rows each has.

    Args:
        z: Rows of one task, shape (N, D).
        y: Integer labels of shape (N,).

    Returns:
        The center of shape (D,), not normalized; zeros without rows.

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit.

    >>> task_center(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 4, 7]))
    tensor([0.5000, 0.5000])
    """
    _inputs.require_rows("z", z)
    _inputs.require_labels(y, len(z))
    with _inputs.full_precision(z):
        z = _inputs.promote(z)
        share = 1 / class_sizes(y).to(z.dtype)
        return share @ z / share.sum().clamp(min=1)


def class_sizes(y: Tensor) -> Tensor:
    """Return the number of rows with the label of each row, integers (N,), without synchronizing the device."""
    ordered = y.sort().values
    return torch.searchsorted(ordered, y, right=True) - torch.searchsorted(ordered, y)


def position_loss(
    z: Tensor,
    y: Tensor,
    center: Tensor,
    *,
    target: PositionTarget = "unit",
    norm: float | Tensor | None = None,
    dimensions: DimensionReduction = "sum",
) -> Tensor:
    """Distance between the center of a task, the mean of its class means P, and its vertex (GPLASC, L_position).

    The norm of the center of several classes is less than 1, so with target "unit" the loss cannot become 0 and moves
    the classes of the task toward each other. With target "scaled" and norm = `Region.center_norm` it is 0 where the
    range loss is 0 too. Without rows the loss is 0 and part of the graph.

    Args:
        z: Unit rows of one task, shape (N, D).
        y: Integer labels of shape (N,).
        center: The vertex of shape (D,).
        target: "unit", |P - center| ** 2 as published; "scaled", |P - norm * center| ** 2; "cosine",
            1 - cos(P, center), which leaves the norm free.
        norm: The norm of the target "scaled".
        dimensions: "sum" or "mean" of the squared differences over the D coordinates.

    Returns:
        The loss, a tensor of shape ().

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit, rows are not unit rows, or an option is unknown.
    """
    _inputs.require_rows("z", z)
    _inputs.require_unit_rows("position_loss", "z", z)
    if len(z) == 0:
        _inputs.require_labels(y, 0)
        return _inputs.promote(z).sum() * 0.0
    return center_loss(task_center(z, y), center, target=target, norm=norm, dimensions=dimensions)


def center_loss(
    mean: Tensor,
    center: Tensor,
    *,
    target: PositionTarget = "unit",
    norm: float | Tensor | None = None,
    dimensions: DimensionReduction = "sum",
) -> Tensor:
    """Return `position_loss` for a center that is known already.

    Args:
        mean: The center of the task, shape (D,).
        center: The vertex of shape (D,).
        target: See `position_loss`.
        norm: The norm of the target "scaled".
        dimensions: "sum" or "mean" of the squared differences over the D coordinates.

    Returns:
        The loss, a tensor of shape ().

    Raises:
        ValueError: If shapes do not fit or an option is unknown.
    """
    if center.shape != mean.shape or center.ndim != 1:
        raise ValueError(f"center must have shape {tuple(mean.shape)}, got {tuple(center.shape)}.")
    _inputs.require_choice("target", target, get_args(PositionTarget))
    _inputs.require_choice("dimensions", dimensions, get_args(DimensionReduction))
    if target == "scaled" and norm is None:
        raise ValueError('target "scaled" needs norm: pass Region.center_norm, or choose "unit" or "cosine".')
    with _inputs.full_precision(mean):
        mean = _inputs.promote(mean)
        center = center.to(mean.dtype)
        if target == "cosine":
            return 1 - center_cosine(mean, center)
        if target == "scaled" and norm is not None:
            center = norm * center
        squares = (mean - center).square()
        return squares.mean() if dimensions == "mean" else squares.sum()


def center_cosine(mean: Tensor, center: Tensor) -> Tensor:
    """Return the cosine between mean (D,) and center (D,); its gradient is bounded also if the mean is 0."""
    length = torch.linalg.vector_norm(mean).clamp(min=_SHORTEST_CENTER)
    cosine: Tensor = (mean @ center) / (length * torch.linalg.vector_norm(center))
    return cosine
