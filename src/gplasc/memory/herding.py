"""Herding: samples whose mean stays closest to the mean of their class (iCaRL)."""

import torch
from torch import Tensor


def herding_order(features: Tensor, count: int) -> Tensor:
    """Select rows (N, D) one after the other such that the mean of those selected is nearest to the mean of all.

        i_k = argmin over i not selected of || mean - (f_i + sum of those selected) / k ||

    Returns min(count, N) indices, the most representative first; the first k are the selection for count k.
    """
    features = features.double()
    count = min(count, len(features))
    mean, total = features.mean(0), torch.zeros_like(features[:1].sum(0))
    lengths = features.square().sum(1)
    chosen = torch.zeros(count, dtype=torch.long)
    for number in range(count):
        # || k mean - sum - f ||^2 up to a constant, in one product instead of N differences.
        wanted = (number + 1) * mean - total
        best = int((lengths - 2 * (features @ wanted)).argmin())
        chosen[number] = best
        total += features[best]
        lengths[best] = torch.inf
    return chosen
