"""Encoders of features that were computed before, by a frozen encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gplasc.models._initialize import initialize
from gplasc.models.encoder import Encoder


class FixedFeatures(Encoder):
    """Returns features (N, feature_dim) as they are, for methods that train no encoder."""

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.feature_dim = feature_dim

    def forward(self, x: Tensor) -> Tensor:
        """Return the features."""
        return x

    def maps(self, x: Tensor) -> Tensor:
        """Return the features as maps of one pixel, (N, feature_dim, 1, 1)."""
        return self.forward(x)[..., None, None]


class FeatureAdapter(FixedFeatures):
    """A residual layer on frozen features: x + W2 relu(norm(W1 x)), (N, feature_dim) to (N, feature_dim).

    W2 is 0 at first, so that training starts from the features as they are.
    """

    def __init__(
        self, feature_dim: int, hidden: int = 512, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(feature_dim)
        self.layers = nn.Sequential(
            nn.Linear(feature_dim, hidden, bias=False),
            nn.LayerNorm(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, feature_dim),
        )
        initialize(self, generator)
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Return the adapted features."""
        change: Tensor = self.layers(x)
        return x + change
