"""Overlap of the feature densities of tasks: PCA to a few dimensions, kernel densities, Monte Carlo integral.

    overlap(A, B) = integral of min(p_A, p_B) = 1/2 ( E_A[min(1, p_B / p_A)] + E_B[min(1, p_A / p_B)] )

0: disjoint; 1: the same density. Both expectations are means over samples drawn from the kernel densities themselves,
so the integral of the two estimates is unbiased and has a known standard error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_ROWS = 1024  # rows of the matrix of distances held at a time


class _KernelDensity:
    """Gaussian kernel density of points, (N, d), with their covariance times Scott's factor N ** (-2 / (d + 4))."""

    def __init__(self, points: Tensor) -> None:
        if points.ndim != 2 or len(points) < 2:
            raise ValueError(f"a density needs at least two rows, got shape {tuple(points.shape)}")
        points = points.double()
        self.points = points
        count, dim = points.shape
        centered = points - points.mean(0)
        covariance = centered.T @ centered / (count - 1)
        # Collapsed features have no variance in some direction; a small value keeps the density finite.
        ridge = 1e-9 * covariance.trace() + torch.finfo(torch.float64).tiny ** 0.5
        covariance = covariance + ridge * torch.eye(dim, dtype=torch.float64)
        self._root = torch.linalg.cholesky(covariance * count ** (-2.0 / (dim + 4)))
        self._white = self._whiten(points)
        log_volume = float(self._root.diagonal().log().sum())
        self._log_norm = math.log(count) + 0.5 * dim * math.log(2 * math.pi) + log_volume

    def log_density(self, x: Tensor) -> Tensor:
        """Return the logarithm of the density at the rows of x (M, d): (M,)."""
        pieces = []
        for rows in self._whiten(x.double()).split(_ROWS):
            distances = torch.cdist(rows, self._white, compute_mode="donot_use_mm_for_euclid_dist")
            pieces.append(torch.logsumexp(-0.5 * distances.square(), dim=1))
        return torch.cat(pieces) - self._log_norm

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return ``count`` random rows of the density: (count, d)."""
        rows = torch.randint(len(self.points), (count,), generator=generator)
        noise = torch.randn(count, self.points.shape[1], generator=generator, dtype=torch.float64)
        drawn: Tensor = self.points[rows] + noise @ self._root.T
        return drawn

    def _whiten(self, x: Tensor) -> Tensor:
        white: Tensor = torch.linalg.solve_triangular(self._root, x.T, upper=False).T
        return white


def _density_overlap(
    first: _KernelDensity, second: _KernelDensity, *, draws: int, generator: torch.Generator
) -> tuple[float, float]:
    """Integrate the smaller of two densities with ``draws`` samples from each: value and standard error."""
    value, variance = 0.0, 0.0
    for own, other in ((first, second), (second, first)):
        x = own.sample(draws, generator)
        shares = (other.log_density(x) - own.log_density(x)).clamp_max(0.0).exp()
        value += 0.5 * float(shares.mean())
        variance += 0.25 * float(shares.var()) / draws
    return value, math.sqrt(variance)


@dataclass(frozen=True)
class TaskOverlap:
    """Overlaps between all tasks."""

    value: Tensor  # (T, T), 1 on the diagonal
    error: Tensor  # (T, T), the standard errors, 0 on the diagonal
    explained: float  # share of the variance of the features that the projection keeps

    @property
    def pairs(self) -> Tensor:
        """The overlap of each pair of tasks once: (T * (T - 1) / 2,)."""
        return self.value[torch.ones_like(self.value).tril(-1).bool()]


def task_overlap(
    features: Sequence[Tensor], *, generator: torch.Generator, dim: int = 3, draws: int = 5000
) -> TaskOverlap:
    """Return the overlaps between the feature densities of tasks.

    features: for each task (N_t, D) with N_t >= 2, not normalized. Of the features of all tasks ``dim`` principal
    components are used; from each density ``draws`` samples are drawn, at least 2.
    """
    from sklearn.decomposition import PCA

    rows = torch.cat(list(features)).double()
    pca = PCA(min(dim, *rows.shape), svd_solver="full")
    with np.errstate(invalid="ignore"):  # features without variance
        pca.fit(rows.numpy())
    densities = [_KernelDensity(torch.from_numpy(pca.transform(x.double().numpy()))) for x in features]
    count = len(densities)
    value, error = torch.eye(count, dtype=torch.float64), torch.zeros(count, count, dtype=torch.float64)
    for i in range(count):
        for j in range(i):
            pair = _density_overlap(densities[i], densities[j], draws=draws, generator=generator)
            value[i, j], error[i, j] = value[j, i], error[j, i] = pair
    explained = float(np.nan_to_num(pca.explained_variance_ratio_).sum())
    return TaskOverlap(value, error, explained)
