"""Losses on the logits (N, C) of memory samples: ER, DER, GCR.

No gradient reaches what is stored, the previous model's logits and weights (N,), which must not all be 0. Without rows
a loss is 0 and part of the graph.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def logit_distance(logits: Tensor, stored: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean squared difference to the stored logits (DER).

        loss = sum_i w_i mean_c (logits_ic - stored_ic)^2 / sum_i w_i        (without weights: w = 1)

    logits, stored: (N, C). NaN in `stored` where a class came later: the mean is over the other columns.
    """
    logits, stored = logits.float(), stored.detach().float()
    absent = stored.isnan()
    distance = (logits - torch.where(absent, logits.detach(), stored)).square().mean(1)
    return _weighted_mean(distance * (logits.shape[1] / (~absent).sum(1)), weights)


def cross_entropy(logits: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean cross-entropy, with weights ``sum_i w_i CE_i / sum_i w_i``."""
    if weights is None and len(y):
        return F.cross_entropy(logits.float(), y)
    return _weighted_mean(F.cross_entropy(logits.float(), y, reduction="none"), weights)


def _weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    if not len(values):
        return values.sum()
    if weights is None:
        return values.mean()
    weights = weights.detach().to(values.dtype)
    return (weights * values).sum() / weights.sum()
