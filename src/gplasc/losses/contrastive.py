"""Supervised contrastive loss, symmetric or with chosen anchors."""

import torch
from torch import Tensor

from gplasc.losses import inputs
from gplasc.losses.rows import by_rows, without_self


def supcon(
    z: Tensor,
    y: Tensor,
    *,
    temperature: float,
    anchors: Tensor | None = None,
    base_temperature: float | None = None,
    divisor: str = "anchors",
    reduction: str = "mean",
    gram: Tensor | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Supervised contrastive loss (Khosla et al. 2020), with Co2L's asymmetric form as an option.

        loss_i = log sum_{a != i} exp(s_ia) - mean_{j != i, y_j = y_i} s_ij,  s_ij = <z_i, z_j> / temperature

    z: (N, D) unit rows, all views; y: (N,) integer labels. Every row is a positive or a negative, but only
    rows where `anchors` (N,) bool is true have a loss; by default all. An anchor without a positive
    contributes 0. `base_temperature` scales the loss by temperature / base_temperature, as the official
    codes do with 0.07.

    reduction: "mean", "sum", or "none" for (N,) values that are 0 where there is no loss. The mean is over
    the anchors that have a positive (divisor="anchors"), or over all N rows as in Co2L's code
    (divisor="rows"). gram: (N, N) cosines z @ z.T when the caller has them already. chunk_rows: see
    `rows.py`.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> supcon(z, torch.tensor([0, 0, 1]), temperature=1.0)  # log(1 + 1/e)
    tensor(0.3133)
    """
    inputs.require_rows("z", z)
    rows = len(z)
    inputs.require_labels(y, rows)
    inputs.require_positive("temperature", temperature)
    inputs.require_choice("divisor", divisor, ("anchors", "rows"))
    inputs.require_choice("reduction", reduction, ("mean", "sum", "none"))
    if base_temperature is not None:
        inputs.require_positive("base_temperature", base_temperature)
    if anchors is not None:
        inputs.require_mask("anchors", anchors, rows)
    if gram is None:
        inputs.require_unit_rows("supcon", "z", z)
    else:
        inputs.require_gram("gram", gram, rows)
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

    with inputs.full_precision(z):
        z = inputs.promote(z)
        gram = None if gram is None else inputs.promote(gram)
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
        return inputs.reduce_rows(per_row, reduction)
