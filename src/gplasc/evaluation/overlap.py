"""How far the feature densities of tasks overlap: PCA to a few dimensions, kernel densities, Monte-Carlo integral.

    overlap(A, B) = integral of min(p_A, p_B) = 1/2 ( E_A[min(1, p_B / p_A)] + E_B[min(1, p_A / p_B)] )

0: apart; 1: the same density. Both expectations are taken over samples drawn from the kernel densities themselves, so
that the integral of the two estimates is met without bias and with a known standard error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS = 1024  # rows of the matrix of distances held at a time


@dataclass(frozen=True)
class Projection:
    """Principal axes: ``mean`` (D,), ``axes`` (D, dim) orthonormal, ``explained`` the share of the variance."""

    mean: Tensor
    axes: Tensor
    explained: float

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, dim)."""
        projected: Tensor = (x.double() - self.mean) @ self.axes
        return projected


def principal_axes(x: Tensor, dim: int) -> Projection:
    """Fit the ``dim`` axes of largest variance to the rows of x, (N, D)."""
    if not 1 <= dim <= x.shape[1] or len(x) < 2:
        raise ValueError(f"cannot find {dim} axes in {len(x)} rows of {x.shape[1]} dimensions")
    x = x.double()
    mean = x.mean(0)
    centered = x - mean
    values, vectors = torch.linalg.eigh(centered.T @ centered)  # ascending
    total = values.sum().clamp_min(torch.finfo(torch.float64).tiny)
    return Projection(mean, vectors[:, -dim:].flip(1), float(values[-dim:].sum() / total))


class KernelDensity:
    """Gaussian kernel density of points, (N, d), with their covariance times Scott's factor N ** (-2 / (d + 4))."""

    def __init__(self, points: Tensor) -> None:
        if points.ndim != 2 or len(points) < 2:
            raise ValueError(
                f"a density needs at least two rows, got a tensor of shape {tuple(points.shape)}"
            )
        points = points.double()
        self.points = points
        count, dim = points.shape
        centered = points - points.mean(0)
        covariance = centered.T @ centered / (count - 1)
        # Collapsed features leave no variance in some direction; a hair of it keeps the density finite.
        hair = 1e-9 * covariance.trace() + torch.finfo(torch.float64).tiny ** 0.5
        covariance = covariance + hair * torch.eye(dim, dtype=torch.float64)
        self._root = torch.linalg.cholesky(covariance * count ** (-2.0 / (dim + 4)))
        self._white = self._whiten(points)
        self._log_norm = (
            math.log(count) + 0.5 * dim * math.log(2 * math.pi) + float(self._root.diagonal().log().sum())
        )

    def log_density(self, x: Tensor) -> Tensor:
        """Logarithm of the density at the rows of x: (M, d) to (M,)."""
        pieces = []
        for rows in self._whiten(x.double()).split(_ROWS):
            distances = torch.cdist(rows, self._white, compute_mode="donot_use_mm_for_euclid_dist")
            pieces.append(torch.logsumexp(-0.5 * distances.square(), dim=1))
        return torch.cat(pieces) - self._log_norm

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw ``count`` rows from the density."""
        rows = torch.randint(len(self.points), (count,), generator=generator)
        noise = torch.randn(count, self.points.shape[1], generator=generator, dtype=torch.float64)
        drawn: Tensor = self.points[rows] + noise @ self._root.T
        return drawn

    def _whiten(self, x: Tensor) -> Tensor:
        white: Tensor = torch.linalg.solve_triangular(self._root, x.T, upper=False).T
        return white


@dataclass(frozen=True)
class Overlap:
    """Overlap of two densities and the standard error of the Monte-Carlo integral."""

    value: float
    error: float


def density_overlap(
    first: KernelDensity, second: KernelDensity, *, draws: int = 5000, generator: torch.Generator
) -> Overlap:
    """Integrate the smaller of two densities with ``draws`` samples from each."""
    if draws < 2:
        raise ValueError(f"draws is {draws}; the standard error needs at least 2")
    value, variance = 0.0, 0.0
    for own, other in ((first, second), (second, first)):
        x = own.sample(draws, generator)
        shares = (other.log_density(x) - own.log_density(x)).clamp_max(0.0).exp()
        value += 0.5 * float(shares.mean())
        variance += 0.25 * float(shares.var()) / draws
    return Overlap(value, math.sqrt(variance))


@dataclass(frozen=True)
class TaskOverlap:
    """Overlaps between all tasks: ``value`` and ``error`` are (T, T), 1 and 0 on the diagonal."""

    value: Tensor
    error: Tensor
    explained: float
    """The share of the features' variance that the projection keeps."""


def task_overlap(
    features: Sequence[Tensor], *, generator: torch.Generator, dim: int = 3, draws: int = 5000
) -> TaskOverlap:
    """Overlap between the feature densities of tasks; features: one (N_t, D) tensor a task, not normalized.

    The principal axes are fitted to all tasks together.
    """
    axes = principal_axes(torch.cat(list(features)), min(dim, features[0].shape[1]))
    densities = [KernelDensity(axes(x)) for x in features]
    count = len(densities)
    value, error = torch.eye(count, dtype=torch.float64), torch.zeros(count, count, dtype=torch.float64)
    for i in range(count):
        for j in range(i):
            found = density_overlap(densities[i], densities[j], draws=draws, generator=generator)
            value[i, j] = value[j, i] = found.value
            error[i, j] = error[j, i] = found.error
    return TaskOverlap(value, error, axes.explained)
