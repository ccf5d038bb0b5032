"""GCR: a weighted subset whose gradients add up to those of all samples (Tiwari et al., CVPR 2022)."""

import torch
from torch import Tensor

from gplasc.memory.quadratic import minimize_non_negative


def _last_layer_gram(errors: Tensor, features: Tensor) -> Tensor:
    """Return all inner products of the samples' gradients by a linear last layer: <e_i, e_j> (<h_i, h_j> + 1)."""
    errors, features = errors.double(), features.double()
    return (errors @ errors.T) * (features @ features.T + 1)


def _matching_pursuit(
    gram: Tensor, wanted: Tensor, budget: int, *, ridge: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Approximate a vector by few vectors with non-negative weights (orthogonal matching pursuit).

        minimize || b - sum_i w_i g_i ||^2 + ridge || w ||^2   with w >= 0 and at most ``budget`` of them above 0

    gram: (N, N) of <g_i, g_j>; wanted: (N,) of <g_i, b>. Each step adds the vector with the largest inner product with
    the residual and fits all weights again. Returns indices in the order of selection and their weights, (K,) each,
    K <= budget: it stops when no vector reduces the residual.
    """
    gram, wanted = gram.double(), wanted.double()
    chosen: list[int] = []
    weights = torch.zeros(0, dtype=torch.float64)
    missing = wanted.clone()
    free = torch.ones(len(wanted), dtype=torch.bool)
    floor = 1e-12 * float(wanted.abs().max()) if len(wanted) else 0.0
    while len(chosen) < min(budget, len(wanted)):
        best = int(missing.masked_fill(~free, -torch.inf).argmax())
        if float(missing[best]) <= floor:
            break
        free[best] = False
        chosen.append(best)
        index = torch.tensor(chosen)
        block = gram[index][:, index]
        # Equal vectors would make the matrix singular without a small multiple of the diagonal.
        jitter = (ridge + 1e-10 * float(block.diagonal().mean())) * torch.eye(len(block), dtype=gram.dtype)
        weights = minimize_non_negative(block + jitter, wanted[index])
        missing = wanted - gram[:, index] @ weights
    index = torch.tensor(chosen, dtype=torch.long)
    return index[weights > 0], weights[weights > 0]


def _class_budgets(counts: Tensor, budget: int) -> Tensor:
    """Divide a budget among classes in proportion to their sizes, at least 1 each if it suffices.

    counts: (K,) numbers of samples, all above 0. Returns (K,) integers, none above its count, whose sum is the
    budget or, if that is less, the number of samples.

    >>> _class_budgets(torch.tensor([90, 9, 1]), 10).tolist()
    [8, 1, 1]
    """
    budget = min(budget, int(counts.sum()))
    ideal = counts.double() * budget / counts.sum()
    given = torch.minimum(ideal.long().clamp(min=1), counts)
    least = 1 if budget >= len(counts) else 0
    while int(given.sum()) > budget:  # the larger classes give up rows for the small ones
        given[int((given - ideal).masked_fill(given <= least, -torch.inf).argmax())] -= 1
    while int(given.sum()) < budget:
        given[int((ideal - given).masked_fill(given >= counts, -torch.inf).argmax())] += 1
    return given


def select_coreset(
    errors: Tensor,
    features: Tensor,
    y: Tensor,
    weights: Tensor,
    budget: int,
    *,
    ridge: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Select weighted samples whose last-layer gradients add up to those of all samples, class by class.

    If fewer than the budget suffice, others are added at random with weight 1. Returns indices and new weights. errors:
    (N, C) gradients of the losses by the logits; ridge is relative to the mean squared gradient of a class.
    """
    if budget >= len(y):
        return torch.arange(len(y)), weights
    chosen, chosen_weights = [], []
    labels, counts = y.unique(return_counts=True)
    for label, quota in zip(labels, _class_budgets(counts, budget).tolist(), strict=True):
        rows = (y == label).nonzero().flatten()
        gram = _last_layer_gram(errors[rows], features[rows])
        scale = float(gram.diagonal().mean())
        wanted = gram @ weights[rows].double()
        index, fitted = _matching_pursuit(gram, wanted, quota, ridge=ridge * scale)
        spare = torch.ones(len(rows), dtype=torch.bool)
        spare[index] = False
        others = spare.nonzero().flatten()
        order = torch.randperm(len(others), generator=generator)[: quota - len(index)]
        chosen += [rows[index], rows[others[order]]]
        chosen_weights += [fitted.to(weights.dtype), torch.ones(len(order), dtype=weights.dtype)]
    return torch.cat(chosen), torch.cat(chosen_weights)
