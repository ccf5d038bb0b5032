"""Checks of the arguments of augmentations."""

from __future__ import annotations

import torch
from torch import Tensor


def check_images(x: Tensor, mean: tuple[float, ...]) -> None:
    """Raise ValueError unless x is a uint8 batch (N, C, H, W) with as many channels as `mean`."""
    if x.ndim != 4 or x.dtype != torch.uint8:
        raise ValueError(
            f"augmentation was given a {x.dtype} tensor of shape {tuple(x.shape)}; it takes uint8 images "
            "(N, C, H, W) with values 0 to 255"
        )
    if x.shape[1] != len(mean):
        raise ValueError(
            f"the images have {x.shape[1]} channels and mean and std have {len(mean)}; give one per channel"
        )


def check_normalization(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Raise ValueError unless both have one number per channel, 1 or 3, and std is positive."""
    if len(mean) != len(std) or len(mean) not in (1, 3) or min(std) <= 0:
        raise ValueError(
            f"mean is {mean} and std is {std}; both need one number per channel, for 1 or 3 channels, "
            "and std must be positive"
        )


def check_probability(name: str, value: float) -> None:
    """Raise ValueError unless the value lies between 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; a probability lies between 0 and 1")
