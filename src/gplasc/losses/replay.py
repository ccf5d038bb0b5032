"""Losses on the logits of memory samples: DER, FDR, iCaRL, GCR."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def logit_distance(logits: Tensor, stored: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean squared difference to the stored logits (DER).

        loss = sum_i w_i mean_c (logits_ic - stored_ic)^2 / sum_i w_i        (without weights: w = 1)

    Args:
        logits: Logits of the current model, shape (N, C).
        stored: Logits stored in the memory, shape (N, C). They receive no gradient. NaN where a class came later: the
            mean is over the other columns.
        weights: Sample weights of shape (N,), not all 0. Default: all 1.

    Returns:
        The loss, a tensor of shape (); without rows 0, as part of the graph.
    """
    logits, stored = logits.float(), stored.detach().float()
    absent = stored.isnan()
    distance = (logits - torch.where(absent, logits.detach(), stored)).square().mean(1)
    return _weighted_mean(distance * (logits.shape[1] / (~absent).sum(1)), weights)


def weighted_cross_entropy(logits: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean of the cross-entropy, ``sum_i w_i CE_i / sum_i w_i``.

    Args:
        logits: Logits of shape (N, C).
        y: Labels of shape (N,).
        weights: Sample weights of shape (N,), not all 0.

    Returns:
        The loss, a tensor of shape (); without rows 0, as part of the graph.
    """
    return _weighted_mean(F.cross_entropy(logits.float(), y, reduction="none"), weights)


def function_distance(logits: Tensor, stored: Tensor) -> Tensor:
    """Mean Euclidean distance between the current class probabilities and the stored ones (FDR).

    Args:
        logits: Logits of the current model, shape (N, C).
        stored: Logits stored in the memory, shape (N, C). They receive no gradient. NaN where a class came later: the
            probabilities are over the other columns.

    Returns:
        The loss, a tensor of shape (); without rows 0, as part of the graph. Its gradient is 0 where both are equal.
    """
    absent = stored.isnan()
    now = logits.float().masked_fill(absent, -torch.inf).softmax(1)
    difference = now - stored.detach().float().masked_fill(absent, -torch.inf).softmax(1)
    return _weighted_mean(torch.linalg.vector_norm(difference, dim=1), None)


def binary_distillation(logits: Tensor, y: Tensor, previous: Tensor | None, num_past: int) -> Tensor:
    """Binary cross-entropy of each class: labels for new classes, the previous model for past ones (iCaRL).

    Args:
        logits: Logits of the classes seen, shape (N, C).
        y: Labels of shape (N,).
        previous: Logits of the previous model, shape (N, at least num_past), or None in the first task.
        num_past: The number of past classes.

    Returns:
        The mean over samples and classes, a tensor of shape (); without rows 0, as part of the graph.
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
