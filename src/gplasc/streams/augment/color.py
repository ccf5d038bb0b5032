"""Color jitter of whole batches: brightness, contrast, saturation, hue and gray as one matrix for each image."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gplasc.streams.augment.parameters import ContrastiveParameters
from gplasc.streams.augment.resize import shaped

LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue look (ITU-R BT.601), as in PIL


def color_matrix(parameters: ContrastiveParameters) -> Tensor:
    """Matrices (N, 3, 3) of brightness, contrast, saturation, hue and gray, in this order.

    Contrast's offset, which is gray and which saturation and hue leave alone, is not part of them.
    """
    p = parameters
    angle = 2 * math.pi * p.hue[:, None, None]
    # Rodrigues' formula for a turn about (1, 1, 1) / sqrt 3; a positive angle turns red toward yellow.
    third = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3)
    hue = third + angle.cos() * (torch.eye(3) - third) + angle.sin() * cross
    luma = torch.tensor(LUMA).expand(3, 3)
    saturation = p.saturation[:, None, None]
    matrix = saturation * hue + (1 - saturation) * luma
    matrix = torch.where(p.gray[:, None, None], luma @ matrix, matrix)
    return matrix * (p.brightness * p.contrast)[:, None, None]


def recolor(x: Tensor, matrix: Tensor, shift: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Matrix @ x + shift for every pixel: (N, C, H, W), (N, C, C), (N, C, 1) -> (N, H, W * C).

    The result has the channels of a pixel side by side. first, second: flat buffers; the result and x live
    in the second.
    """
    n, channels, height, width = x.shape
    flat = shaped(first, n, channels, height * width)
    planes = torch.bmm(matrix, x.view(flat.shape), out=flat).view(x.shape)
    out = shaped(second, n, height, width, channels)
    for channel in range(channels):
        torch.add(planes[:, channel], shift[:, channel, :, None], out=out[..., channel])
    return out.view(n, height, width * channels)
