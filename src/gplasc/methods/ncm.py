"""NCM: nearest class mean of the features of a fixed encoder; nothing is trained or replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gplasc.learning import Context
from gplasc.methods.base import FeatureStatistics, LinearScores
from gplasc.settings.types import Settings


class NCM(FeatureStatistics[Settings]):
    """Means and the common variance are sums over all samples seen, so the order of the tasks does not matter.

    The score of class c is that of a Gaussian with mean m_c and variance s in every direction, up to a constant:
    (x . m_c - |m_c|^2 / 2) / s. Its order is that of the distances. With the mean squared distance V of samples to
    their class means, s = V / sqrt(D): V / D would be right for independent features, V for a single one.
    """

    DEVIATIONS = (
        "features are normalized to unit length before their means are taken",
        "there is no published variance: ours gives the scale of the probabilities, which are not calibrated, and does "
        "not change which class is nearest",
    )
    unit: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._squares = torch.zeros((), dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        """Return the sums."""
        return {**super().state_dict(), "squares": self._squares.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the sums back."""
        super().load_state_dict(state)
        self._squares = state["squares"].clone()

    def add(self, features: Tensor) -> None:
        """Add the squared lengths of features (N, D)."""
        self._squares += features.square().sum()

    def fit_predictor(self, predictor: nn.Module, ctx: Context) -> None:
        """Compute the scores' weights from the sums."""
        assert isinstance(predictor, LinearScores)
        self.collect(ctx)
        means = self.means()
        within = self._squares - (self.counts * means.square().sum(1)).sum()
        variance = (within / self.counts.sum() / means.shape[1] ** 0.5).clamp(min=1e-6)
        predictor.set(means / variance, -means.square().sum(1) / 2 / variance)
