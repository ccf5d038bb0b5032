"""Losses on the class scores of remembered samples: DER, FDR, iCaRL, GCR."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def logit_distance(logits: Tensor, remembered: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over samples and classes of the squared difference to the remembered logits (DER).

        loss = sum_i w_i mean_c (logits_ic - remembered_ic)^2 / sum_i w_i        (without weights: w = 1)

    logits, remembered: (N, C); weights: (N,), not all 0. Without rows the loss is 0 and keeps its graph. Logits of
    classes that came later are remembered as NaN; the mean is over the other columns.
    """
    logits, remembered = logits.float(), remembered.detach().float()
    absent = remembered.isnan()
    distance = (logits - torch.where(absent, logits.detach(), remembered)).square().mean(1)
    return _weighted_mean(distance * (logits.shape[1] / (~absent).sum(1)), weights)


def weighted_cross_entropy(logits: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy, ``sum_i w_i CE_i / sum_i w_i``: (N, C), (N,), (N,). Without rows 0, with a graph."""
    return _weighted_mean(F.cross_entropy(logits.float(), y, reduction="none"), weights)


def function_distance(logits: Tensor, remembered: Tensor) -> Tensor:
    """Mean Euclidean distance between the class probabilities now and those remembered (FDR).

    logits, remembered: (N, C). Where the two are equal the gradient is 0. Without rows the loss is 0 and keeps its
    graph. Logits of classes that came later are remembered as NaN; the probabilities are over the other columns.
    """
    absent = remembered.isnan()
    now = logits.float().masked_fill(absent, -torch.inf).softmax(1)
    difference = now - remembered.detach().float().masked_fill(absent, -torch.inf).softmax(1)
    return _weighted_mean(torch.linalg.vector_norm(difference, dim=1), None)


def binary_distillation(logits: Tensor, y: Tensor, previous: Tensor | None, num_past: int) -> Tensor:
    """Binary cross-entropy of every class: the label for new classes, the previous model for past ones (iCaRL).

    logits: (N, C) of the classes seen; y: (N,); previous: (N, at least num_past) logits of the previous model, or None
    in the first task. Mean over samples and classes; without rows 0, with a graph.
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
