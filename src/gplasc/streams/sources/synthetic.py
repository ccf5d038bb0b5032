"""synthetic: a colored pattern for each class, shifted, dimmed and in noise; made in a moment, any shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.streams.files import ArrayFiles, Dataset, Split
from gplasc.streams.info import StreamInfo

if TYPE_CHECKING:
    from torch import Tensor

_MEAN, _STD = 0.5, 0.15
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class Synthetic:
    """What may follow `synthetic:`; `classes`, `train` and `test` count per task, per class and per class."""

    tasks: int = 4
    classes: int = 2
    size: int = 16
    channels: int = 3
    train: int = 40
    test: int = 20
    seed: int = 0


def parse(text: str) -> Synthetic:
    """Read `tasks=5,classes=2,size=32`; what is not named keeps its default."""
    values: dict[str, int] = {}
    for item in filter(None, text.split(",")):
        key, _, value = (part.strip() for part in item.partition("="))
        if key not in vars(Synthetic()):
            raise UserError(f"synthetic has no setting {key!r}; {did_you_mean(key, vars(Synthetic()))}")
        lowest = {"size": 4, "seed": 0}.get(key, 1)
        if not value.isdecimal() or len(value) > 18 or int(value) < lowest:
            raise UserError(f"synthetic:{item}: {key} must be a whole number, at least {lowest}")
        values[key] = int(value)
    settings = Synthetic(**values)
    images = settings.tasks * settings.classes * (settings.train + settings.test)
    if settings.channels not in (1, 3) or images * settings.channels * settings.size**2 > _MOST_BYTES:
        raise UserError(f"synthetic:{text}: channels are 1 or 3, and images at most {_MOST_BYTES >> 30} GB")
    return settings


def _load(settings: Synthetic) -> Dataset:
    """Draw the patterns and the images; the same settings always give the same images."""
    count = settings.tasks * settings.classes
    width = len(str(count - 1))
    return Dataset(
        train=_draw(settings, count, settings.train, "train"),
        test=_draw(settings, count, settings.test, "test"),
        class_names=tuple(f"pattern {number:0{width}d}" for number in range(count)),
        mean=(_MEAN,) * settings.channels,
        std=(_STD,) * settings.channels,
        classes_per_task=settings.classes,
    )


def _draw(settings: Synthetic, count: int, images_per_class: int, split: str) -> Split:
    import torch

    from gplasc.random import Generators

    size = settings.size
    images = torch.empty((count * images_per_class, settings.channels, size, size), dtype=torch.uint8)
    for number in range(count):
        pattern = _pattern(settings, number)
        generator = Generators(settings.seed)[f"synthetic/{split}/{number}"]
        for row in range(number * images_per_class, (number + 1) * images_per_class):
            shifts = torch.randint(-(size // 8), size // 8 + 1, (2,), generator=generator).tolist()
            contrast = 0.7 + 0.6 * torch.rand((), generator=generator)
            noise = 0.07 * torch.randn(pattern.shape, generator=generator)
            image = 0.5 + contrast * (pattern.roll(shifts, dims=(1, 2)) - 0.5) + noise
            images[row] = (image * 255).round().clamp(0, 255).to(torch.uint8)
    return Split(images, torch.arange(count).repeat_interleave(images_per_class))


def _pattern(settings: Synthetic, number: int) -> Tensor:
    """A 4 x 4 grid of random colors around a random tint, smoothly enlarged: (C, S, S) in 0.15..0.85."""
    import torch
    from torch.nn import functional as F

    from gplasc.random import Generators

    generator = Generators(settings.seed)[f"synthetic pattern/{number}"]
    tint = torch.rand((settings.channels, 1, 1), generator=generator)
    grid = 0.5 * tint + 0.5 * torch.rand((settings.channels, 4, 4), generator=generator)
    size = (settings.size, settings.size)
    return 0.15 + 0.7 * F.interpolate(grid[None], size=size, mode="bilinear", align_corners=False)[0]


STREAMS = (
    StreamInfo(
        name="synthetic",
        description="colored patterns in noise, made on the spot; synthetic:tasks=5,size=32,... to change them",
        tasks=4,
        image_size=16,
        channels=3,
        read=lambda request: ArrayFiles(partial(_load, parse(request.argument))),
        train_images=320,
        test_images=160,
        mean=(_MEAN,) * 3,
        std=(_STD,) * 3,
        argument_optional=True,
    ),
)
