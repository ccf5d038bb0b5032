"""SLDA: streaming linear discriminant analysis on a fixed encoder (Hayes and Kanan, CVPRW 2020)."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from gplasc.methods.base import FeatureStatistics
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
    """Class means and the common covariance, from sums over all samples.

    The score of class c is x' P m_c - m_c' P m_c / 2, where P is the inverse of (1 - a) S + a (tr S / D) I.
    """

    Settings = _Settings
    DEVIATIONS = (
        "the covariance is that of all samples around their class means, computed from sums; the paper updates it "
        "sample by sample with means that are not final",
        "shrinkage=none: the share of the identity follows from the number of samples (oracle approximating shrinkage, "
        "Chen et al. 2010); the paper always takes 1e-4, which is too little for fewer samples than features",
    )
    second: ClassVar[str] = "products"

    def second_moment(self, features: Tensor) -> Tensor:
        """Return the sum of the products, (D, D)."""
        return features.T @ features

    def scores(self, means: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights for the common covariance around the class means."""
        total = self.counts.sum()
        covariance = (second - (means.T * self.counts) @ means) / total
        dim = len(covariance)
        scale = (covariance.trace() / dim).clamp(min=1e-12)
        share = self.settings.shrinkage
        if share is None:
            share = _oas_shrinkage(covariance, int(total))
        shrunk = (1 - share) * covariance + share * scale * torch.eye(dim, dtype=torch.float64)
        weights = torch.linalg.solve(shrunk, means.T).T
        return weights, -(weights * means).sum(1) / 2


def _oas_shrinkage(covariance: Tensor, count: int) -> float:
    """Return the share of the identity by the oracle approximating shrinkage; covariance: (D, D) of `count` samples."""
    dim = len(covariance)
    squared, trace = float(covariance.square().sum()), float(covariance.trace()) ** 2
    above = (1 - 2 / dim) * squared + trace
    below = (count + 1 - 2 / dim) * (squared - trace / dim)
    return 1.0 if below <= 0 else min(1.0, max(above / below, 1e-6))
