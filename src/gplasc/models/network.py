"""Encoder and heads together, and the outputs that all loss terms of one step share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gplasc.models.encoder import Encoder
from gplasc.models.heads import LinearClassifier


class Outputs:
    """A network's outputs for one batch; everything but `features` is computed on first access.

    Each quantity is computed at most once and then shared, under the gradient mode and the autocast state of the
    forward pass, wherever it is accessed: reading a projection inside `no_grad` for a log does not remove its gradient
    from the loss, and a teacher run under `no_grad` has no graph. Unit rows and Gram matrices are float32 or better. A
    head is evaluated with the weights it has at first access: access it before the optimizer step.
    """

    features: Tensor
    """Raw pooled features (N, D)."""

    def __init__(self, features: Tensor, network: Network) -> None:
        self.features = features
        self._network = network
        device = features.device.type
        self._grad = torch.is_grad_enabled()
        self._autocast = (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))

    @cached_property
    def projection(self) -> Tensor:
        """Projections with rows of unit length (N, P)."""
        return self._run(self._network.projection, "projection head")

    @cached_property
    def logits(self) -> Tensor:
        """Class scores (N, C)."""
        return self._run(self._network.classifier, "classifier")

    @cached_property
    def projection_gram(self) -> Tensor:
        """Cosines of all pairs of projections (N, N)."""
        # Cosines divided by a temperature of 0.01 need more digits than bfloat16 has.
        with torch.set_grad_enabled(self._grad), torch.autocast(self._autocast[0], enabled=False):
            return self.projection @ self.projection.T

    def _run(self, head: nn.Module | None, name: str) -> Tensor:
        """Return the head's output, computed as in the forward pass."""
        if head is None:
            raise ValueError(f"this network has no {name}: build it with Network(..., {name.split()[0]}=...)")
        device, dtype, enabled = self._autocast
        with torch.set_grad_enabled(self._grad), torch.autocast(device, dtype=dtype, enabled=enabled):
            out: Tensor = head(self.features)
            return out


class Network(nn.Module):
    """An encoder with an optional projection head and an optional classifier on its features."""

    def __init__(
        self,
        encoder: Encoder,
        projection: nn.Module | None = None,
        classifier: LinearClassifier | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection = projection
        self.classifier = classifier

    @property
    def feature_dim(self) -> int:
        """Number of the encoder's features."""
        return self.encoder.feature_dim

    def forward(self, x: Tensor) -> Outputs:
        """Images (N, C, H, W), float and normalized -> Outputs; the heads run only when asked for."""
        return Outputs(self.encoder(x), self)

    if TYPE_CHECKING:  # nn.Module's call is untyped

        def __call__(self, x: Tensor) -> Outputs:
            """Images -> Outputs."""
