"""From images of any size to probabilities, as one module: what predicts, and what is exported."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gplasc.learning import ImageFormat


class Pipeline(nn.Module):
    """Resizes, scales and normalizes images, computes features, and scores the classes.

    Args:
        images: Shape and normalization that the encoder was trained with.
        encoder: Maps normalized images (N, C, H, W) to features (N, D).
        scores: Maps features (N, D) to class scores (N, classes).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, images: ImageFormat, encoder: nn.Module, scores: nn.Module) -> None:
        super().__init__()
        self.channels, self.size = images.shape[0], images.shape[-1]
        self.encoder = encoder
        self.scores = scores
        self.register_buffer("mean", torch.tensor(images.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(images.std).view(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map images with values 0 to 255 of any size, (N, C, H, W), to probabilities (N, classes)."""
        normalized = (resize(x, self.size) / 255 - self.mean) / self.std
        probabilities: Tensor = self.scores(self.encoder(normalized)).softmax(1)
        return probabilities


def resize(x: Tensor, size: int) -> Tensor:
    """Resize images to squares: (N, C, H, W) with values 0 to 255 of any type to (N, C, size, size) float32.

    Bilinear with antialiasing; the shape of an image is not kept.
    """
    x = x.float()
    if not torch.compiler.is_exporting() and x.shape[-2:] == (size, size):
        return x
    return nn.functional.interpolate(x, (size, size), mode="bilinear", antialias=True)
