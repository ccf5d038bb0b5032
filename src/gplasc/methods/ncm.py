"""NCM: nearest class mean of the features of a fixed encoder; nothing is trained or replayed."""

from typing import ClassVar

from torch import Tensor

from gplasc.methods.base import FeatureStatistics
from gplasc.settings.types import Settings


class NCM(FeatureStatistics[Settings]):
    """Class means and the common variance, from sums over all samples.

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
    second: ClassVar[str] = "squares"

    def second_moment(self, features: Tensor) -> Tensor:
        """Return the sum of the squared lengths."""
        return features.square().sum()

    def scores(self, means: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights for the common variance around the class means."""
        within = second - (self.counts * means.square().sum(1)).sum()
        variance = (within / self.counts.sum() / means.shape[1] ** 0.5).clamp(min=1e-6)
        return means / variance, -means.square().sum(1) / 2 / variance
