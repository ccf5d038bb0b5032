"""Resized crops, flips and blur of whole batches as matrices: one for the rows, one for the columns of an image."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from gplasc._io.transfer import transfer


class Tents(NamedTuple):
    """Resizing of N lines: output pixel i weighs input pixel j by max(0, 1 - |center_i - pixel_j|)."""

    center: Tensor  # (N, size)
    pixel: Tensor  # (N, source)
    normalized: bool  # whether the weights of an output pixel sum to 1 as they are


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


def add_blur(matrices: Tensor, sigma: Tensor, radius: int) -> None:
    """Let matrices (N, size, ...) blur what they give, in place: by sigma (N,) on the CPU, 0 for no blur."""
    which = sigma.nonzero()[:, 0]  # on the CPU, which does not synchronize the device
    if len(which):
        size, device = matrices.shape[1], matrices.device
        distance = torch.arange(radius + 1) / sigma[which, None]
        weight = torch.exp(-0.5 * distance.square())
        kernels = transfer(weight / (2 * weight.sum(1, keepdim=True) - weight[:, :1]), device)
        products = (kernels @ _mirrored_taps(radius, size, device)).view(-1, size, size)
        which = transfer(which, device)
        matrices.index_copy_(0, which, torch.bmm(products, matrices.index_select(0, which)))


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


def recolor_rows(x: Tensor, columns: Tensor, matrix: Tensor, shift: Tensor, buffers: Tensor) -> Tensor:
    """Resize the rows of images, x @ columns.T, and color each pixel: matrix @ pixel + shift.

    x (N, C, H, W) is at the start of the first of the two buffers, which are overwritten; columns (N, s, W), matrix
    (N, C, C), shift (N, C, 1). The result is (N, H, s * C): the channels of a pixel are side by side.
    """
    n, channels, height, width = x.shape
    size = columns.shape[1]
    half = shaped(buffers[1], n, channels * height, size)
    torch.bmm(x.view(n, channels * height, width), columns.transpose(1, 2), out=half)
    planes = shaped(buffers[0], n, channels, height * size)
    torch.bmm(matrix, half.view(planes.shape), out=planes)
    out = shaped(buffers[1], n, height, size, channels)
    for channel in range(channels):
        torch.add(planes[:, channel].view(n, height, size), shift[:, channel, :, None], out=out[..., channel])
    return out.view(n, height, size * channels)


def shaped(buffer: Tensor, *shape: int) -> Tensor:
    """The start of a flat buffer as a contiguous tensor of this shape."""
    return buffer[: math.prod(shape)].view(shape)
