"""From images of any size to probabilities, as one module: what predicts, and what is exported."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize

from gplasc.classifier._calibration import Calibration, centered_largest
from gplasc.learning import ImageFormat


class Pipeline(nn.Module):
    """Crops, resizes and normalizes images, computes features, and scores the classes."""

    mean: Tensor
    std: Tensor
    means: Tensor | None

    def __init__(
        self,
        images: ImageFormat | None,
        encoder: nn.Module,
        scores: nn.Module,
        *,
        groups: Sequence[Sequence[int]] | None = None,  # of each class its outputs; None: one each
        calibration: Calibration | None = None,
        means: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.channels, self.size = (images.shape[0], images.shape[-1]) if images else (0, 0)
        self.encoder, self.scores = encoder, scores
        self.groups, self.calibration = groups, calibration
        mean, std = (images.mean, images.std) if images else ((), ())
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("means", means)

    def features(self, x: Tensor) -> Tensor:
        """Map images with values 0 to 255, or features, to features (N, D)."""
        if not self.size:
            return x
        features: Tensor = self.encoder((fit_square(x, self.size) / 255 - self.mean) / self.std)
        return features

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map images (N, C, H, W) of any size, or features, to probabilities (N, classes) and to how far they are
        above the threshold of unknown ones, (N,).
        """  # noqa: D205
        features = self.features(x)
        scores = add_up(self.scores(features), self.groups)
        if self.calibration is None:
            return scores.softmax(1), torch.ones_like(scores[:, 0])
        cosines = torch.zeros_like(scores[:, 0])
        if self.means is not None:
            cosines = (normalize(features, dim=1) @ self.means.T).amax(1)
        likeness = self.calibration.score(centered_largest(scores), cosines) - self.calibration.threshold
        return (scores / self.calibration.temperature).softmax(1), likeness


def add_up(scores: Tensor, groups: Sequence[Sequence[int]] | None) -> Tensor:
    """Return the scores of classes, of which each may have several outputs."""
    if groups is None:
        return scores
    return torch.stack([scores[:, list(outputs)].logsumexp(1) for outputs in groups], 1)


def fit_square(x: Tensor, size: int) -> Tensor:
    """Cut out the central square of images (N, C, H, W) and resize it: (N, C, size, size) float32, antialiased."""
    height, width = x.shape[-2:]
    side = torch.sym_min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    if torch.compiler.is_exporting():  # a slice of the whole axis would be guarded
        place = torch.arange(side, device=x.device)
        x = x.index_select(2, place + top).index_select(3, place + left).float()
    else:
        x = x[:, :, top : top + side, left : left + side].float()
        if side == size:
            return x
    return interpolate(x, (size, size), mode="bilinear", antialias=True)
