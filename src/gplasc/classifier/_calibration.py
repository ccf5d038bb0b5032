"""How sure a classifier is: temperature of the probabilities, and a threshold for images of no known class."""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor
from torch.nn.functional import normalize

_MOST_ROWS = 5000  # for the temperature
_BINS = 15


class Plain(BaseModel):
    """Plain data that is stored: nothing is converted, and unknown names are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Calibration(Plain):
    """Numbers from cross-validated scores; nothing follows from the images that are predicted."""

    temperature: float
    calibration_error: float
    """Expected calibration error in percent: 15 bins of equal width."""
    known: tuple[float, float, float, float]
    """Mean and deviation of the largest centered score, and of the cosine to the nearest class mean."""
    threshold: float
    """Images with a lower score are unknown."""
    reject: float
    """The share of known images below the threshold."""

    @classmethod
    def of(cls, scores: Tensor, cosines: Tensor | None, y: Tensor, reject: float) -> Calibration:
        """Calibrate on scores (N, C) that were not fitted to these rows, and on cosines (N,) if given."""
        temperature, largest = _temperature(scores, y), centered_largest(scores)
        cosines = torch.zeros_like(largest) if cosines is None else cosines
        known = [
            (float(part.mean()), max(float(part.std(correction=0)), 1e-6)) for part in (largest, cosines)
        ]
        made = cls(
            temperature=temperature,
            calibration_error=100 * _calibration_error((scores / temperature).softmax(1), y),
            known=(*known[0], *known[1]),
            threshold=0.0,
            reject=reject,
        )
        ranked = made.score(largest, cosines).sort().values
        threshold = float(ranked[min(int(reject * len(ranked)), len(ranked) - 1)]) if reject else -1e6
        return made.model_copy(update={"threshold": threshold})

    def score(self, largest: Tensor, cosines: Tensor) -> Tensor:
        """Return how much images look like known ones, (N,): the sum of both, standardized."""
        mean, deviation, cosine, spread = self.known
        return (largest - mean) / deviation + (cosines - cosine) / spread


def centered_largest(scores: Tensor) -> Tensor:
    """Return the largest score of each row over the mean of the row, (N,)."""
    return scores.amax(1) - scores.mean(1)


def class_means(x: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the direction of each class's mean of features of unit length, (C, D), and the cosine of each row to the
    nearest one, (N,); the row itself is left out of its class's.
    """  # noqa: D205
    unit = normalize(x, dim=1)
    sums = torch.zeros(classes, x.shape[1]).index_add_(0, y, unit)
    means = normalize(sums, dim=1)
    cosines = unit @ means.T
    cosines[torch.arange(len(x)), y] = (unit * normalize(sums[y] - unit, dim=1)).sum(1)
    return means, cosines.amax(1)


def _temperature(scores: Tensor, y: Tensor) -> float:
    """Minimize the cross entropy; a share of 1 / (N + 2) of each label is spread over all, so that it is finite."""
    rows = torch.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).long()
    z, y = scores[rows].double(), y[rows]
    spread = 1 / (len(y) + 2)
    target = (1 - spread) * z[torch.arange(len(y)), y] + spread * z.mean(1)
    low, high = torch.tensor(1e-3).double(), torch.tensor(1e3).double()
    for _ in range(40):  # by halving the interval of the logarithm: the derivative increases
        inverse = (low * high).sqrt()
        above = ((inverse * z).softmax(1) * z).sum(1).sum() > target.sum()
        low, high = (low, inverse) if above else (inverse, high)
    return float(1 / inverse)


def _calibration_error(probabilities: Tensor, y: Tensor) -> float:
    confidence, predicted = probabilities.max(1)
    bins = (confidence * _BINS).long().clamp(max=_BINS - 1)
    gap = torch.zeros(_BINS).index_add_(0, bins, confidence - (predicted == y).float())
    return float(gap.abs().sum() / max(len(y), 1))
