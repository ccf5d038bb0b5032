"""The two losses that give a task its region: its range (how large) and its position (where)."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gplasc.losses import inputs
from gplasc.losses.rows import by_rows

RANGE_FORMS = ("hinge", "softplus", "leaky_relu", "squared_hinge")
POSITION_TARGETS = ("unit", "scaled", "cosine")
_NEGATIVE_SLOPE = 0.1
_SHORTEST_CENTER = 1e-4


class RangeTerms(NamedTuple):
    """`loss`, and the share of pairs of different classes below the threshold; both 0 without such pairs."""

    loss: Tensor
    active_fraction: Tensor


def range_loss(
    z: Tensor,
    y: Tensor,
    k: float | Tensor,
    *,
    form: str = "hinge",
    reduction: str = "mean",
    gram: Tensor | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Keep every pair of different classes at cosine >= k (GPLASC, L_range).

        mean over ordered pairs (i, j), y_i != y_j, of g(x_ij),      x_ij = k - <z_i, z_j>

    form: "hinge" max(0, x); "squared_hinge" max(0, x) ** 2; "softplus" log(1 + exp(x)); "leaky_relu" x or
    0.1 x when negative. The last two also pull pairs together that satisfy the threshold (the leaky one can
    be negative).

    z: (N, D) unit rows of one task; y: (N,) integer labels. Rows of different tasks must not be mixed: it
    would pull the tasks together. k: number in [-1, 1] or tensor () without gradient. Without a pair the
    loss is 0 and keeps its graph.

    reduction: "mean" over the pairs; "mean_active" over the pairs with x > 0; "sum".
    gram: (N, N) cosines z @ z.T when the caller has them already. chunk_rows: see `rows.py`.

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
    form: str = "hinge",
    reduction: str = "mean",
    gram: Tensor | None = None,
    chunk_rows: int | None = None,
) -> RangeTerms:
    """`range_loss` together with the share of pairs that it acts on (x > 0), as tensors ()."""
    inputs.require_rows("z", z)
    rows = len(z)
    inputs.require_labels(y, rows)
    inputs.require_choice("form", form, RANGE_FORMS)
    inputs.require_choice("reduction", reduction, ("mean", "mean_active", "sum"))
    if isinstance(k, Tensor):
        k = k.detach()
    elif not -1 <= k <= 1:
        raise ValueError(f"k is a cosine and must be in [-1, 1], got {k}.")
    if gram is None:
        inputs.require_unit_rows("range_loss", "z", z)
    else:
        inputs.require_gram("gram", gram, rows)
        chunk_rows = max(1, rows)

    def block(start: int, stop: int, z: Tensor, y: Tensor, gram: Tensor | None) -> Tensor:
        x = k - (z[start:stop] @ z.T if gram is None else gram)
        different = y[start:stop, None] != y[None, :]
        total = torch.where(different, _penalty(x, form), 0.0).sum(dim=1)
        active = (different & (x > 0)).sum(dim=1)
        return torch.stack([total, different.sum(dim=1).to(z.dtype), active.to(z.dtype)], dim=1)

    with inputs.full_precision(z):
        z = inputs.promote(z)
        gram = None if gram is None else inputs.promote(gram)
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


def _penalty(x: Tensor, form: str) -> Tensor:
    if form == "hinge":
        return F.relu(x)
    if form == "squared_hinge":
        return F.relu(x).square()
    if form == "softplus":
        return F.softplus(x)
    return F.leaky_relu(x, _NEGATIVE_SLOPE)


def task_center(z: Tensor, y: Tensor) -> Tensor:
    """Mean of the class means: (D,), not normalized.

    z: (N, D) rows of one task; y: (N,) integer labels. Each class present counts the same, however many rows
    it has. Without rows it is 0.

    >>> task_center(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 4, 7]))
    tensor([0.5000, 0.5000])
    """
    inputs.require_rows("z", z)
    inputs.require_labels(y, len(z))
    with inputs.full_precision(z):
        z = inputs.promote(z)
        share = 1 / class_sizes(y).to(z.dtype)
        return share @ z / share.sum().clamp(min=1)


def class_sizes(y: Tensor) -> Tensor:
    """How many rows have the label of each row: (N,) integers, without asking the device how many classes."""
    ordered = y.sort().values
    return torch.searchsorted(ordered, y, right=True) - torch.searchsorted(ordered, y)


def position_loss(
    z: Tensor,
    y: Tensor,
    center: Tensor,
    *,
    target: str = "unit",
    norm: float | Tensor | None = None,
    dimensions: str = "sum",
) -> Tensor:
    """Pull the center of a task, the mean of its class means, to its vertex (GPLASC, L_position).

    target "unit": |P - center| ** 2, as the paper has it. The center of several classes is always shorter
    than 1, so with a unit vertex this never ends and keeps pulling the classes together. target "scaled":
    |P - norm * center| ** 2; with norm = `Region.center_norm` it is 0 exactly where the range loss is 0
    too. target "cosine": 1 - cos(P, center), which leaves the length free.

    z: (N, D) unit rows of one task; y: (N,) integer labels; center: (D,). dimensions: squared differences
    are summed ("sum") or averaged ("mean") over the D coordinates. Without rows the loss is 0 and keeps its
    graph.
    """
    inputs.require_rows("z", z)
    inputs.require_unit_rows("position_loss", "z", z)
    if len(z) == 0:
        inputs.require_labels(y, 0)
        return inputs.promote(z).sum() * 0.0
    return center_loss(task_center(z, y), center, target=target, norm=norm, dimensions=dimensions)


def center_loss(
    mean: Tensor,
    center: Tensor,
    *,
    target: str = "unit",
    norm: float | Tensor | None = None,
    dimensions: str = "sum",
) -> Tensor:
    """`position_loss` of a center that is known already: mean (D,), center (D,)."""
    if center.shape != mean.shape or center.ndim != 1:
        raise ValueError(f"center must have shape {tuple(mean.shape)}, got {tuple(center.shape)}.")
    inputs.require_choice("target", target, POSITION_TARGETS)
    inputs.require_choice("dimensions", dimensions, ("sum", "mean"))
    if target == "scaled" and norm is None:
        raise ValueError('target "scaled" needs norm: pass Region.center_norm, or choose "unit" or "cosine".')
    with inputs.full_precision(mean):
        mean = inputs.promote(mean)
        center = center.to(mean.dtype)
        if target == "cosine":
            return 1 - center_cosine(mean, center)
        if target == "scaled" and norm is not None:
            center = norm * center
        squares = (mean - center).square()
        return squares.mean() if dimensions == "mean" else squares.sum()


def center_cosine(mean: Tensor, center: Tensor) -> Tensor:
    """Cosine between mean (D,) and center (D,), with a bounded gradient where the mean vanishes."""
    length = torch.linalg.vector_norm(mean).clamp(min=_SHORTEST_CENTER)
    cosine: Tensor = (mean @ center) / (length * torch.linalg.vector_norm(center))
    return cosine
