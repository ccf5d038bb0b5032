"""Normalization alone, for test time, and as the last step of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gplasc.streams.augment.checks import check_images, check_normalization


def plain(mean: Sequence[float], std: Sequence[float]) -> PlainAugmentation:
    """Normalization alone, for test time; the generator is not used."""
    return PlainAugmentation(mean=tuple(mean), std=tuple(std))


@dataclass(frozen=True)
class PlainParameters:
    """Nothing is drawn."""


@dataclass(frozen=True)
class PlainAugmentation:
    """Normalization alone; made by `plain`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        check_normalization(self.mean, self.std)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Normalize uint8 images (N, C, H, W) -> float32 of the same shape; nothing is drawn."""
        return self.apply(x, PlainParameters())

    def draw(self, n: int, height: int, width: int, generator: torch.Generator | None) -> PlainParameters:
        """Draw nothing."""
        return PlainParameters()

    def apply(self, x: Tensor, parameters: PlainParameters) -> Tensor:
        """Normalize uint8 images (N, C, H, W) -> float32, channels last."""
        check_images(x, self.mean)
        return normalize(x, self.mean, self.std)


def normalize(x: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 (N, C, H, W) -> float32, (x / 255 - mean) / std, channels last."""
    out = torch.empty(x.shape, device=x.device, memory_format=torch.channels_last)
    for channel, (m, s) in enumerate(zip(mean, std, strict=True)):
        # shift + x / (255 s) in one step; the shift is filled in on the device, not copied there
        torch.add(
            torch.full((), -m / s, device=x.device), x[:, channel], alpha=1 / (255 * s), out=out[:, channel]
        )
    return out
