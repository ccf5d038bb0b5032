"""Losses on the logits (N, C) of memory samples: DER, FDR, iCaRL, GCR.

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


def function_distance(logits: Tensor, stored: Tensor) -> Tensor:
    """Mean Euclidean distance between the current class probabilities and the stored ones (FDR).

    logits, stored: (N, C). NaN in `stored` where a class came later: the probabilities are over the other columns. The
    gradient is 0 where both are equal.
    """
    absent = stored.isnan()
    now = logits.float().masked_fill(absent, -torch.inf).softmax(1)
    difference = now - stored.detach().float().masked_fill(absent, -torch.inf).softmax(1)
    return _weighted_mean(torch.linalg.vector_norm(difference, dim=1), None)


def binary_distillation(logits: Tensor, y: Tensor, previous: Tensor | None, num_past: int) -> Tensor:
    """Binary cross-entropy of each class: labels for new classes, the previous model for past ones (iCaRL).

    logits: (N, C) of the classes seen; previous: (N, at least num_past) of the previous model, None in the first task.
    The mean is over samples and classes.
    """
    targets = F.one_hot(y, logits.shape[1]).float()
    if previous is not None:
        targets[:, :num_past] = previous.detach().float()[:, :num_past].sigmoid()
    errors = F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none")
    return _weighted_mean(errors.mean(1), None)


def _weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    if not len(values):
        return values.sum()
    if weights is None:
        return values.mean()
    weights = weights.detach().to(values.dtype)
    return (weights * values).sum() / weights.sum()
