"""SLDA: streaming linear discriminant analysis on a fixed encoder (Hayes and Kanan, CVPRW 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from gplasc.learning import Context
from gplasc.methods.base import FeatureStatistics, LinearScores
from gplasc.settings.types import Settings


class _Settings(Settings):
    """Settings of SLDA."""

    shrinkage: float | None = Field(
        None,
        gt=0,
        le=1,
        description="share of the identity in the covariance; none: computed from the data (OAS)",
    )


class SLDA(FeatureStatistics[_Settings]):
    """Means and the common covariance are sums over all samples seen, so the order of the tasks does not matter.

    The score of class c is x' P m_c - m_c' P m_c / 2, where P is the inverse of (1 - a) S + a (tr S / D) I.
    """

    Settings = _Settings
    DEVIATIONS = (
        "the covariance is that of all samples around their class means, computed from sums; the paper updates it "
        "sample by sample with means that are not final",
        "shrinkage=none: the share of the identity follows from the number of samples (oracle approximating shrinkage, "
        "Chen et al. 2010); the paper always takes 1e-4, which is too little for fewer samples than features",
    )

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._products = torch.zeros(0, 0, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        """Return the sums."""
        return {**super().state_dict(), "products": self._products.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the sums back."""
        super().load_state_dict(state)
        self._products = state["products"].clone()

    def add(self, features: Tensor) -> None:
        """Add the products of features (N, D)."""
        products = features.T @ features
        self._products = self._products + products if len(self._products) else products

    def fit_predictor(self, predictor: nn.Module, ctx: Context) -> None:
        """Compute the scores' weights from the sums."""
        assert isinstance(predictor, LinearScores)
        self.collect(ctx)
        means, total = self.means(), self.counts.sum()
        covariance = (self._products - (means.T * self.counts) @ means) / total
        dim = len(covariance)
        scale = (covariance.trace() / dim).clamp(min=1e-12)
        share = self.settings.shrinkage
        if share is None:
            share = _oas_shrinkage(covariance, int(total))
        shrunk = (1 - share) * covariance + share * scale * torch.eye(dim, dtype=torch.float64)
        weights = torch.linalg.solve(shrunk, means.T).T
        predictor.set(weights, -(weights * means).sum(1) / 2)


def _oas_shrinkage(covariance: Tensor, count: int) -> float:
    """Return the share of the identity by the oracle approximating shrinkage.

    Args:
        covariance: The covariance of shape (D, D).
        count: The number of samples.

    Returns:
        A number above 0, at most 1.
    """
    dim = len(covariance)
    squared, trace = float(covariance.square().sum()), float(covariance.trace()) ** 2
    above = (1 - 2 / dim) * squared + trace
    below = (count + 1 - 2 / dim) * (squared - trace / dim)
    return 1.0 if below <= 0 else min(1.0, max(above / below, 1e-6))
