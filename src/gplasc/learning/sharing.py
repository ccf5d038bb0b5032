"""This process's share of an augmented batch: all random numbers are drawn, some of the images are computed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gplasc.streams.augment import Augmentation


def some_views(
    x: Tensor,
    augmentation: Augmentation,
    count: int,
    generator: torch.Generator,
    rows: slice,
    to_device: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the given rows of `gplasc.streams.augment.views`; all others are drawn but not computed.

    Args:
        x: (N, C, H, W) uint8 on the CPU.
        augmentation: What to do with each image.
        count: Number of views, at least 1.
        generator: Source of the random numbers, on the CPU.
        rows: Which of the count * N rows.
        to_device: Moves the images of these rows to where they are augmented.

    Returns:
        (K, C, H', W') float32.
    """
    drawn = augmentation.draw(count * len(x), x.shape[2], x.shape[3], generator)
    images = x[torch.arange(count * len(x))[rows] % max(len(x), 1)]
    return augmentation.apply(to_device(images), drawn[rows])
