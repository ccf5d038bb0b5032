"""Gradient descent of free points on the unit sphere: features without a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gplasc.losses import kernels


class Shape(NamedTuple):
    """Form of one task: distance of features to their center, its norm, range of cosines between classes."""

    radius: float
    center_norm: float
    smallest_cosine: float
    largest_cosine: float

    @classmethod
    def in_theory(cls, num_classes: int, k: float | None) -> Shape:
        """The theorem's form for threshold k; None, or a k below -1/(|Y| - 1), gives the plain simplex.

        >>> shape = Shape.in_theory(3, 0.7)
        >>> round(shape.radius, 4), round(shape.center_norm, 4)
        (0.4472, 0.8944)
        """
        floor = -1 / (num_classes - 1)
        if k is None or k <= floor:
            return cls(1.0, 0.0, floor, floor)
        radius = math.sqrt((1 - 1 / num_classes) * (1 - k))
        return cls(radius, math.sqrt((1 + (num_classes - 1) * k) / num_classes), k, k)

    @classmethod
    def measured(cls, z: Tensor, y: Tensor) -> Shape:
        """Form of the features z (N, D), unit rows with labels y (N,); radius: mean distance to the center."""
        center = kernels.task_center(z, y)
        cosines = (z @ z.T)[y[:, None] != y[None, :]]
        radius = float((z - center).norm(dim=1).mean())
        return cls(radius, float(center.norm()), float(cosines.min()), float(cosines.max()))

    def deviation(self, theory: Shape) -> float:
        """Largest relative difference of radius and center norm; absolute where theory says 0."""
        pairs = ((self.radius, theory.radius), (self.center_norm, theory.center_norm))
        return max(abs(measured - expected) / (expected or 1.0) for measured, expected in pairs)


def random_points(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Uniform points on the unit sphere: (count, dim) float64 rows."""
    return normalize(torch.randn(count, dim, dtype=torch.float64, generator=generator), dim=1)


def r2scl(
    z: Tensor,
    y: Tensor,
    *,
    temperature: float,
    k: float | Tensor | None = None,
    range_weight: float | Tensor = 0.0,
    center: Tensor | None = None,
    position_weight: float = 0.0,
) -> Tensor:
    """The region-restricted contrastive loss of one task; without threshold and center it is plain SupCon.

    z: (N, D) unit rows; y: (N,). The hinge is an exact penalty: at the theorem's optimum the mean contrastive loss
    falls by less than 1/temperature per unit of cosine given up, so a range_weight above 1/temperature holds the
    threshold exactly. The center fixes a direction alone; the length of the task prototype stays free.
    """
    cosines = kernels.cosines(z)
    loss = kernels.supcon(z, y, temperature, cosines=cosines)
    if k is not None:
        loss = loss + range_weight * kernels.range_pairs(z, y, k, cosines=cosines).loss
    if center is not None:
        cosine = kernels.center_cosine(kernels.task_center(z, y), center.to(z.dtype))
        loss = loss + position_weight * (1 - cosine)
    return loss


def descend(
    objective: Callable[[Tensor, float], Tensor],
    start: Tensor,
    *,
    steps: int,
    learning_rate: float,
    record: Collection[int] = (),
) -> list[Tensor]:
    """Minimize `objective` over unit rows from `start` (..., D); returns recorded points and the final ones.

    `objective` takes the points and the share of steps done. Adam moves the rows; each step ends on the sphere. The
    learning rate falls along a cosine to nearly nothing: at the kink of a hinge no constant step size settles.
    `record` holds the numbers of finished steps (0 is the start) whose points are kept; the final points are last.
    """
    points = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([points], lr=learning_rate, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=1e-4 * learning_rate)
    kept = []
    for step in range(steps):
        if step in record:
            kept.append(points.detach().clone())
        optimizer.zero_grad()
        objective(normalize(points, dim=-1), step / steps).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            points.copy_(normalize(points, dim=-1))
    return [*kept, points.detach()]
