"""What sits on the features: projection head, linear classifier, class prototypes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gplasc.losses import kernels
from gplasc.models._initialize import Initialization, initialize


class ProjectionHead(nn.Module):
    """Linear - ReLU - Linear, then rows of unit length: (N, feature_dim) -> (N, out)."""

    def __init__(
        self, feature_dim: int, hidden: int = 512, out: int = 128, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.out = out
        first, last = nn.Linear(feature_dim, hidden), nn.Linear(hidden, out)
        self.layers = nn.Sequential(first, nn.ReLU(inplace=True), last)
        initialize(self, generator)

    def forward(self, features: Tensor) -> Tensor:
        """Unit rows (N, out), at least float32: low-precision lengths would not be 1."""
        z: Tensor = self.layers(features)
        return kernels.unit(z)


class LinearClassifier(nn.Linear):
    """Logits of all classes: (N, feature_dim) -> (N, num_classes)."""

    def __init__(
        self,
        feature_dim: int,
        num_classes: int,
        *,
        generator: torch.Generator | None = None,
        initialization: Initialization = "pytorch",
    ) -> None:
        super().__init__(feature_dim, num_classes)
        initialize(self, generator, initialization)

    def grow(self, num_classes: int, *, generator: torch.Generator | None = None) -> None:
        """Add outputs up to ``num_classes``; the present ones keep their weights."""
        added = num_classes - self.out_features
        more = LinearClassifier(self.in_features, added, generator=generator).to(self.weight)
        self.weight = nn.Parameter(torch.cat([self.weight.data, more.weight.data]))
        self.bias = nn.Parameter(torch.cat([self.bias.data, more.bias.data]))
        self.out_features = num_classes


class Prototypes(nn.Module):
    """One learnable unit vector per class (CCLIS)."""

    def __init__(self, num_classes: int, dim: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_classes, dim))
        nn.init.uniform_(self.weight, -1, 1, generator=generator)  # up to its length, as in nn.Linear
        self.normalize_()

    def grow(self, num_classes: int, *, generator: torch.Generator | None = None) -> None:
        """Add prototypes up to ``num_classes``; the present ones stay."""
        count, dim = self.weight.shape
        more = Prototypes(num_classes - count, dim, generator=generator).to(self.weight)
        self.weight = nn.Parameter(torch.cat([self.weight.data, more.weight.data]))

    @torch.no_grad()
    def normalize_(self) -> None:
        """Bring the rows back to unit length in place, outside the graph: a projection, not a layer."""
        self.weight.copy_(F.normalize(self.weight, dim=1))
