"""Gaussian blur of some images of a batch, as matrices that act on rows and columns."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def half_kernels(sigma: Tensor, radius: int) -> Tensor:
    """(N, radius + 1): weight of the pixel at distance 0, 1, ... in a Gaussian blur."""
    distance = torch.arange(radius + 1, device=sigma.device) / sigma[:, None]
    weight = torch.exp(-0.5 * distance.square())
    return weight / (2 * weight.sum(1, keepdim=True) - weight[:, :1])


def apply_blur(matrices: Tensor, which: Tensor, kernels: Tensor) -> None:
    """Let some of the matrices (N, size, ...) blur what they give, in place."""
    if len(which):
        size, radius = matrices.shape[1], kernels.shape[1] - 1
        blur = (kernels @ _mirrored_taps(radius, size, matrices.device)).view(-1, size, size)
        matrices.index_copy_(0, which, torch.bmm(blur, matrices.index_select(0, which)))


@lru_cache(maxsize=8)
def _mirrored_taps(radius: int, size: int, device: torch.device) -> Tensor:
    """(radius + 1, size * size): entry d counts how often output i takes pixel j at distance d."""
    counts = torch.zeros(radius + 1, size, size)
    for shift in range(-radius, radius + 1):
        for i in range(size):
            j = abs(i + shift)
            j = min(j, 2 * (size - 1) - j)
            counts[abs(shift), i, j] += 1
    return counts.view(radius + 1, size * size).to(device)
