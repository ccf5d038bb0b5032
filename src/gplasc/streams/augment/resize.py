"""Resized crops and flips of whole batches as matrices: one for the rows, one for the columns of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tents:
    """Resizing of N lines: output pixel i weighs input pixel j by max(0, 1 - |center_i - pixel_j|)."""

    center: Tensor
    """(N, size)."""
    pixel: Tensor
    """(N, source)."""
    normalized: bool
    """Whether the weights of an output pixel sum to 1 as they are."""


def tents(start: Tensor, length: Tensor, source: int, size: int, flip: Tensor | None = None) -> Tents:
    """The resizing of `length` pixels from `start` on, (N,) whole numbers as float32, to `size` pixels.

    Bilinear; where the crop is larger than the result the kernel is widened, as PIL and antialias=True of torch
    do. flip: (N,) bool, turns the result round.
    """
    step = (length / size)[:, None]
    ramp = torch.arange(size, device=start.device) + 0.5
    if flip is not None:
        ramp = torch.where(flip[:, None], size - ramp, ramp)
    center = ramp * step
    pixel = torch.arange(source, device=start.device) + 0.5 - start[:, None]
    if source <= size:
        # No crop is larger than the result; in its outer half pixels the nearest pixel has all the weight.
        return Tents(torch.minimum(center.clamp_(min=0.5), length[:, None] - 0.5), pixel, True)
    stretch = 1 / step.clamp(min=1.0)
    # Pixels outside the crop are put infinitely far away.
    inside = (pixel > 0) & (pixel < length[:, None])
    return Tents(center * stretch, torch.where(inside, pixel * stretch, math.inf), False)


def resize_matrices(lines: Sequence[Tents], part: slice, buffer: Tensor) -> Tensor:
    """The matrices of some images side by side, in the buffer: (N, size, sum of the sources)."""
    centers = [line.center[part] for line in lines]
    widths = [line.pixel.shape[1] for line in lines]
    weight = shaped(buffer, *centers[0].shape, sum(widths))
    for line, center, block in zip(lines, centers, weight.split(widths, dim=2), strict=True):
        torch.sub(center[:, :, None], line.pixel[part, None, :], out=block)
    torch.add(torch.ones((), device=weight.device), weight.abs_(), alpha=-1, out=weight).clamp_(min=0)
    for line, block in zip(lines, weight.split(widths, dim=2), strict=True):
        if not line.normalized:
            block.div_(block.sum(2, keepdim=True))
    return weight


def resize_rows(x: Tensor, columns: Tensor, buffer: Tensor) -> Tensor:
    """X @ columns.T for every channel, in the buffer: (N, C, H, W), (N, s, W) -> (N, C, H, s)."""
    n, channels, height, width = x.shape
    out = shaped(buffer, n, channels * height, columns.shape[1])
    torch.bmm(x.view(n, channels * height, width), columns.transpose(1, 2), out=out)
    return out.view(n, channels, height, -1)


def weighted_means(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Means (N, C, 1) of x (N, C, H, W) with weights for its rows (N, H) and columns (N, W)."""
    n, channels, height, width = x.shape
    half = torch.bmm(x.view(n, channels * height, width), columns[:, :, None])
    return torch.bmm(half.view(n, channels, height), rows[:, :, None])


def shaped(buffer: Tensor, *shape: int) -> Tensor:
    """The start of a flat buffer as a contiguous tensor of this shape."""
    return buffer[: math.prod(shape)].view(shape)
