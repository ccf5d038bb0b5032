"""Supervised contrastive loss, symmetric or with chosen anchors."""

from typing import Literal, get_args

import torch
from torch import Tensor

from gplasc.losses import _inputs
from gplasc.losses._inputs import Reduction
from gplasc.losses._rows import by_rows, without_self


def supcon(
    z: Tensor,
    y: Tensor,
    *,
    temperature: float,
    anchors: Tensor | None = None,
    base_temperature: float | None = None,
    divisor: Literal["anchors", "rows"] = "anchors",
    reduction: Reduction = "mean",
    gram: Tensor | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Supervised contrastive loss (SupCon, Khosla et al. 2020); with `anchors` the asymmetric form of Co2L.

        loss_i = log sum_{a != i} exp(s_ia) - mean_{j != i, y_j = y_i} s_ij,  s_ij = <z_i, z_j> / temperature

    An anchor without a positive has loss 0.

    Args:
        z: Unit rows of all views, shape (N, D).
        y: Integer labels of shape (N,).
        temperature: Divides the cosines.
        anchors: A boolean mask of shape (N,) of the rows that have a loss. All rows are positives or negatives of
            the anchors. Default: all rows.
        base_temperature: Multiplies the loss by temperature / base_temperature, as the official code does with 0.07.
        divisor: What the mean is over: "anchors" that have a positive, or all N "rows" as in Co2L's code.
        reduction: "mean", "sum", or "none" for shape (N,) with 0 where there is no loss.
        gram: The cosines `z @ z.T` of shape (N, N), if they are known already.
        chunk_rows: The number of rows of the pair matrix to compute at a time. Default: all of a batch of up to 2048.

    Returns:
        The loss, a tensor of shape () or (N,).

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit, rows are not unit rows, or an option is unknown.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> supcon(z, torch.tensor([0, 0, 1]), temperature=1.0)  # log(1 + 1/e)
    tensor(0.3133)
    """
    _inputs.require_rows("z", z)
    rows = len(z)
    _inputs.require_labels(y, rows)
    _inputs.require_positive("temperature", temperature)
    _inputs.require_choice("divisor", divisor, ("anchors", "rows"))
    _inputs.require_choice("reduction", reduction, get_args(Reduction))
    if base_temperature is not None:
        _inputs.require_positive("base_temperature", base_temperature)
    if anchors is not None:
        _inputs.require_mask("anchors", anchors, rows)
    if gram is None:
        _inputs.require_unit_rows("supcon", "z", z)
    else:
        _inputs.require_gram("gram", gram, rows)
        chunk_rows = max(1, rows)

    def block(start: int, stop: int, z: Tensor, y: Tensor, gram: Tensor | None) -> Tensor:
        cosines = z[start:stop] @ z.T if gram is None else gram
        similarity = cosines / temperature
        positive = without_self(y[start:stop, None] == y[None, :], start, False)
        # A finite filling, not -inf: with a single row the logarithm must stay finite for its gradient.
        others = without_self(similarity, start, torch.finfo(similarity.dtype).min)
        count = positive.sum(dim=1).to(similarity.dtype)
        attraction = torch.where(positive, similarity, 0.0).sum(dim=1) / count.clamp(min=1)
        loss = torch.where(count > 0, others.logsumexp(dim=1) - attraction, 0.0)
        return torch.stack([loss, (count > 0).to(loss.dtype)], dim=1)

    with _inputs.full_precision(z):
        z = _inputs.promote(z)
        gram = None if gram is None else _inputs.promote(gram)
        if rows == 0:
            per_row, has_loss = z.sum(dim=1) * 0.0, y.new_zeros(0, dtype=z.dtype)
        else:
            per_row, has_loss = by_rows(block, rows, chunk_rows, z, y, gram).unbind(dim=1)
        if anchors is not None:
            per_row = torch.where(anchors, per_row, 0.0)
            has_loss = torch.where(anchors, has_loss, 0.0)
        if base_temperature is not None:
            per_row = per_row * (temperature / base_temperature)
        if reduction == "mean" and divisor == "anchors":
            return per_row.sum() / has_loss.detach().sum().clamp(min=1)
        return _inputs.reduce_rows(per_row, reduction)
