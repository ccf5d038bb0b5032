"""The base class of augmentations, and the simple ones: padded crop, normalization alone, stored views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gplasc._io.transfer import transfer


class Augmentation(ABC):
    """Maps uint8 images (N, C, H, W) to float32 (N, C, H', W'), normalized, channels last."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: Tensor, generator: torch.Generator, *, views: int = 1) -> Tensor:
        """Augment every image of a batch, (N, C, H, W) uint8, by its own random numbers, drawn on the CPU.

        Returns:
            (views * N, C, H', W') float32; row v * N + n is view v of image n.
        """
        if views < 1:
            raise ValueError(f"views is {views}; at least one view is needed")
        self._check(x)
        x = x.repeat(views, 1, 1, 1) if views > 1 else x
        return self.apply(x, self.draw(len(x), x.shape[2], x.shape[3], generator))

    @abstractmethod
    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Draw the random numbers of n images of height x width pixels: a row for each image, on the CPU."""

    @abstractmethod
    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Augment images by the rows of `drawn` that belong to them."""

    def _require(self, words: str, **conditions: bool) -> None:
        """Check the normalization, and that these settings meet their conditions."""
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3) or min(self.std) <= 0:
            raise ValueError(
                f"mean is {self.mean} and std is {self.std}; both need one number per channel, for 1 or 3 channels, "
                "and std must be positive"
            )
        for name, met in conditions.items():
            if not met:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be {words}")

    def _check(self, x: Tensor) -> None:
        if x.ndim != 4 or x.dtype != torch.uint8 or x.shape[1] != len(self.mean):
            raise ValueError(
                f"augmentation was given a {x.dtype} tensor of shape {tuple(x.shape)}; it takes uint8 images "
                f"(N, C, H, W) with values 0 to 255, and one number of mean and std for each channel"
            )


@dataclass(frozen=True)
class Plain(Augmentation):
    """Normalization alone, for test time."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        self._require("")

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Draw nothing: (N, 0)."""
        return torch.empty(n, 0)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Normalize uint8 images (N, C, H, W) -> float32, channels last."""
        return _normalize(x, self.mean, self.std)


@dataclass(frozen=True)
class Replay(Augmentation):
    """The augmentation of the replay methods: black border, random crop, flip, normalization."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int = 4
    flip: float = 0.5

    def __post_init__(self) -> None:
        self._require("a probability, between 0 and 1", flip=0 <= self.flip <= 1)
        self._require("positive", image_size=self.image_size >= 1)
        self._require("at least 0", padding=self.padding >= 0)

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Draw (N, 3) integers: top and left of the crop in the padded image, and whether it is flipped."""
        room = (height + 2 * self.padding - self.image_size, width + 2 * self.padding - self.image_size)
        if min(room) < 0:
            raise ValueError(
                f"images of {height} x {width} px with a border of {self.padding} are smaller than the crop "
                f"of {self.image_size} px; use a larger padding or a smaller image_size"
            )
        top = torch.randint(room[0] + 1, (n,), generator=generator)
        left = torch.randint(room[1] + 1, (n,), generator=generator)
        return torch.stack([top, left, torch.rand(n, generator=generator) < self.flip], dim=1)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Crop, flip and normalize uint8 images (N, C, H, W) -> float32, channels last."""
        n, channels, size, device = len(x), x.shape[1], self.image_size, x.device
        top, left, flip = drawn.unbind(1)
        padded = F.pad(x.contiguous(), [self.padding] * 4)
        height, width = padded.shape[2:]
        # The flip comes first, so the crop is counted from the other side.
        left = transfer(torch.where(flip > 0, width - size - left, left), device)
        flipped = transfer(flip.nonzero()[:, 0], device)
        padded.index_copy_(0, flipped, padded.index_select(0, flipped).flip(3))
        # Each row of a crop is `size` neighbors in memory, and is copied as one piece.
        image = torch.arange(n, device=device)[:, None, None] * channels
        channel = torch.arange(channels, device=device)[:, None]
        row = torch.arange(size, device=device) + transfer(top, device)[:, None, None]
        start = ((image + channel) * height + row) * width + left[:, None, None]
        crops = padded.view(-1).unfold(0, size, 1).index_select(0, start.view(-1)) if n else padded
        return _normalize(crops.view(n, channels, size, size), self.mean, self.std)


@dataclass(frozen=True)
class StoredViews(Augmentation):
    """Selects one of the `count` stored views of each row, (N, views, 1, D) -> (N, D), in place of augmentation.

    With one view it is the first, that of the plain image, otherwise a random one of the others.
    """

    count: int = 1

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Draw the view of each of n rows, (N,)."""
        if self.count == 1:
            return torch.zeros(n, dtype=torch.int64)
        return torch.randint(1, self.count, (n,), generator=generator)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Select the views that were drawn."""
        return x[torch.arange(len(x), device=x.device), transfer(drawn, x.device), 0]

    def _check(self, x: Tensor) -> None:
        pass


def _normalize(x: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 (N, C, H, W) -> float32, (x / 255 - mean) / std, channels last."""
    out = torch.empty(x.shape, device=x.device, memory_format=torch.channels_last)
    for channel, (m, s) in enumerate(zip(mean, std, strict=True)):
        # shift + x / (255 s) in one step; the shift is filled in on the device, not copied there
        shift = torch.full((), -m / s, device=x.device)
        torch.add(shift, x[:, channel], alpha=1 / (255 * s), out=out[:, channel])
    return out
