"""Padded random crop and flip: the augmentation of the replay methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gplasc._io.transfer import transfer
from gplasc.streams.augment.checks import check_images, check_normalization, check_probability
from gplasc.streams.augment.normalize import normalize


def replay(
    image_size: int, mean: Sequence[float], std: Sequence[float], *, padding: int = 4, flip: float = 0.5
) -> ReplayAugmentation:
    """The augmentation of the replay methods: black border, random crop, flip, normalization."""
    return ReplayAugmentation(
        image_size=image_size, mean=tuple(mean), std=tuple(std), padding=padding, flip=flip
    )


@dataclass(frozen=True)
class ReplayParameters:
    """What was drawn for each of N images; all tensors on the CPU."""

    top: Tensor
    """(N,) first row of the crop in the padded image."""
    left: Tensor
    """(N,) first column of the crop in the padded image."""
    flip: Tensor
    """(N,) bool."""


@dataclass(frozen=True)
class ReplayAugmentation:
    """Black border, random crop, flip, normalization; made by `replay`."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int
    flip: float

    def __post_init__(self) -> None:
        check_normalization(self.mean, self.std)
        check_probability("flip", self.flip)
        if self.image_size < 1 or self.padding < 0:
            raise ValueError(
                f"image_size is {self.image_size} and padding is {self.padding}; "
                "the size must be positive and the padding must not be negative"
            )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment uint8 images (N, C, H, W) -> float32 (N, C, image_size, image_size)."""
        check_images(x, self.mean)
        return self.apply(x, self.draw(len(x), x.shape[2], x.shape[3], generator))

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> ReplayParameters:
        """Draw the parameters of n images of height x width pixels."""
        room = (height + 2 * self.padding - self.image_size, width + 2 * self.padding - self.image_size)
        if min(room) < 0:
            raise ValueError(
                f"images of {height} x {width} px with a border of {self.padding} are smaller than the crop "
                f"of {self.image_size} px; use a larger padding or a smaller image_size"
            )
        return ReplayParameters(
            top=torch.randint(room[0] + 1, (n,), generator=generator),
            left=torch.randint(room[1] + 1, (n,), generator=generator),
            flip=torch.rand(n, generator=generator) < self.flip,
        )

    def apply(self, x: Tensor, parameters: ReplayParameters) -> Tensor:
        """The images that belong to these parameters: uint8 (N, C, H, W) -> float32, channels last."""
        check_images(x, self.mean)
        n, channels, size, device = len(x), x.shape[1], self.image_size, x.device
        padded = F.pad(x.contiguous(), [self.padding] * 4)
        height, width = padded.shape[2:]
        # The flip comes first, so the crop is counted from the other side.
        left = transfer(torch.where(parameters.flip, width - size - parameters.left, parameters.left), device)
        flipped = transfer(parameters.flip.nonzero()[:, 0], device)
        padded.index_copy_(0, flipped, padded.index_select(0, flipped).flip(3))
        # Each row of a crop is `size` neighbors in memory, and is copied as one piece.
        image = torch.arange(n, device=device)[:, None, None] * channels
        channel = torch.arange(channels, device=device)[:, None]
        row = torch.arange(size, device=device) + transfer(parameters.top, device)[:, None, None]
        start = ((image + channel) * height + row) * width + left[:, None, None]
        crops = padded.view(-1).unfold(0, size, 1).index_select(0, start.view(-1)) if n else padded
        return normalize(crops.view(n, channels, size, size), self.mean, self.std)
