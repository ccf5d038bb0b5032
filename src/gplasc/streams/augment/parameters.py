"""What is drawn for each image by the contrastive augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class ContrastiveParameters:
    """What was drawn for each of N images; all tensors on the CPU."""

    box: Tensor
    """(N, 4): top, left, height and width of the crop in pixels, whole numbers as float32."""
    flip: Tensor
    """(N,) bool."""
    brightness: Tensor
    """(N,) factor, 1 leaves the image as it is; so do contrast and saturation."""
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    """(N,) shift in turns of the color circle, 0 leaves the image as it is."""
    gray: Tensor
    """(N,) bool."""
    sigma: Tensor
    """(N,) standard deviation of the blur in pixels of the result, 0 for no blur."""
