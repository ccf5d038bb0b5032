"""Augmentation of whole batches: random per image, on any device, driven by a generator that is passed in.

An augmentation is a frozen object that is called with uint8 images (N, C, H, W) and a generator and gives
float32 images, normalized, channels last:

    augment = contrastive(32, mean, std)
    x = views(images, augment, 2, generator)            # two views for the contrastive methods
    x = replay(32, mean, std)(images, generator)        # padded crop and flip for the replay methods
    x = plain(mean, std)(images, generator)             # test time

Every random number is drawn on the CPU first (`draw`), then the images are computed from those numbers
(`apply`), so a generator state gives the same parameters whatever the device.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from gplasc.streams.augment.normalize import plain
from gplasc.streams.augment.padded_crop import replay
from gplasc.streams.augment.simclr import contrastive

__all__ = ["DEVIATIONS", "Augmentation", "contrastive", "plain", "replay", "views"]

DEVIATIONS = (
    "hue turns the colors about the gray axis of RGB, which keeps the mean of the channels; torchvision turns it in "
    "HSV, which keeps the largest and the smallest channel instead",
    "the order is brightness, contrast, saturation, hue, gray for every image; torchvision draws the order of the "
    "first four anew for each image",
    "clipping to black and white happens once, after color and blur, not after every color operation",
    "values are not rounded to 256 steps between the operations",
    "CIFAR-10 is normalized with its standard deviation over all pixels (0.2470, 0.2435, 0.2615), as in Mammoth; "
    "the code of SupContrast, Co2L and CCLIS divides by (0.2023, 0.1994, 0.2010), the mean of the images' own",
)
"""Where augmentation departs from torchvision's transforms, on which the code of SupContrast, Co2L and CCLIS
is built, and from the constants of that code."""


class Augmentation(Protocol):
    """Called with uint8 images (N, C, H, W) and a generator; gives float32 (N, C, H', W'), normalized."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment every image by its own random numbers; the result is channels last."""
        ...


def views(x: Tensor, augmentation: Augmentation, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` independent views of every image.

    Args:
        x: (N, C, H, W) uint8.
        augmentation: Made by `contrastive`, `replay` or `plain`.
        count: Number of views, at least 1.
        generator: Source of the random numbers, on the CPU.

    Returns:
        (count * N, C, H', W') float32; row v * N + n is view v of image n.

    Raises:
        ValueError: If `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}; at least one view is needed")
    return augmentation(x.repeat(count, 1, 1, 1) if count > 1 else x, generator)
