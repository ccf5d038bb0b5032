"""Drawing the boxes of random resized crops."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def draw_crop(
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Boxes (N, 4) of random resized crops: top, left, height, width.

    As in torchvision: area uniform, logarithm of the aspect ratio uniform, ten attempts at a box that fits
    into the image, then uniformly placed; after ten failures the largest central box of an allowed ratio.
    """
    attempts = 10
    area = height * width * uniform((n, attempts), scale, generator)
    aspect = uniform((n, attempts), (math.log(ratio[0]), math.log(ratio[1])), generator).exp()
    w = (area * aspect).sqrt().round()
    h = (area / aspect).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    w, h, found = w.gather(1, first)[:, 0], h.gather(1, first)[:, 0], fits.any(1)
    place = torch.rand(2, n, generator=generator)
    top = (place[0] * (height - h + 1)).floor().clamp(max=height - h)
    left = (place[1] * (width - w + 1)).floor().clamp(max=width - w)

    whole = min(max(width / height, ratio[0]), ratio[1])
    central_w = float(min(width, round(height * whole)))
    central_h = float(min(height, round(width / whole)))
    return torch.stack(
        [
            torch.where(found, top, (height - central_h) // 2),
            torch.where(found, left, (width - central_w) // 2),
            torch.where(found, h, central_h),
            torch.where(found, w, central_w),
        ],
        dim=1,
    )


def uniform(shape: int | tuple[int, ...], limits: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Draw float32 numbers uniformly between two limits."""
    size = (shape,) if isinstance(shape, int) else shape
    return limits[0] + (limits[1] - limits[0]) * torch.rand(size, generator=generator)
