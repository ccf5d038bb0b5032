"""The geometry behind GPLASC: where task regions lie on the sphere and how large they may be.

A task owns a cap of the unit sphere. The caps' centers are the vertices of a simplex equiangular tight frame
(the best spread that points can have); inside a cap the class means form a regular simplex with pairwise
cosine k. Everything here is plain numbers and float64 tensors, without a network.
"""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Region", "region", "simplex_etf", "smallest_angle", "supcon_lower_bound"]


@dataclass(frozen=True)
class Region:
    """The cap of one task; angles in radians.

    k_min: smallest threshold at which neighboring caps touch without overlapping (margin 0).
    k: threshold for the cosine between classes of the task; -1 switches the hinge off.
    radius: distance of the class means from their common center, `sqrt((1 - margin)) * sin(angle / 2)`.
    center_norm: length of that center, `sqrt(1 - radius ** 2)`.
    half_angle: angle between the cap's axis and a class mean, `arcsin(radius)`.
    gap: angle left free between neighboring caps.
    """

    k_min: float
    k: float
    radius: float
    center_norm: float
    half_angle: float
    gap: float


def simplex_etf(num_points: int, dim: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Return the vertices of a regular simplex in a random orientation: (num_points, dim) float64 unit rows.

    The rows sum to zero and have pairwise cosine -1/(num_points - 1); dim >= num_points - 1 suffices, because
    the simplex is built inside the hyperplane it spans. One point is a random unit vector. With fewer
    dimensions no simplex exists: the rows are then spread so that their smallest angle is largest
    (exact up to 2 * dim points and on the circle, numerical beyond), and a warning says so.

    The orientation comes from `generator` (a CPU generator); without one it is the same at every call.

    >>> points = simplex_etf(4, 3)
    >>> bool(torch.allclose(points @ points.T, torch.full((4, 4), -1 / 3).double().fill_diagonal_(1)))
    True
    """
    if num_points < 1 or dim < 1:
        raise ValueError(
            f"simplex_etf needs at least one point and one dimension, got {num_points} and {dim}."
        )
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    if num_points == 1:
        return _rotation(dim, 1, generator).T.contiguous()
    if dim >= num_points - 1:
        simplex = _simplex_coordinates(num_points)
        return simplex @ _rotation(dim, num_points - 1, generator).T
    warnings.warn(
        f"{num_points} points form a simplex only in {num_points - 1} or more dimensions; in {dim} they are "
        "spread as far apart as possible instead, with a smaller angle between them.",
        stacklevel=2,
    )
    return _spread_points(num_points, dim, generator)


def smallest_angle(points: Tensor) -> float:
    """Smallest angle, in radians, between two of the unit rows of `points` (K, d); pi for a single row."""
    if points.ndim != 2 or len(points) == 0:
        raise ValueError(f"points must have shape (K, d) with K >= 1, got {tuple(points.shape)}.")
    if len(points) == 1:
        return math.pi
    # arccos loses half of the digits near 0 and pi; half the chord does not near 0, where it matters.
    chords = torch.pdist(points.detach().double().cpu())
    return 2 * math.asin(min(1.0, float(chords.min()) / 2))


def region(num_tasks: int, num_classes: int, margin: float, *, angle: float | None = None) -> Region:
    """Size of the cap of a task with `num_classes` classes among `num_tasks` tasks.

        k_min = 1 - C / (C - 1) * sin(angle / 2) ** 2,    k = k_min + margin * (1 - k_min),    C = num_classes

    `margin` in [0, 1) is the share by which the squared radius shrinks; 0 lets neighboring caps touch.
    `angle` is the smallest angle between the centers; by default the simplex's, arccos(-1 / (num_tasks - 1)).

    One task has no neighbors: k is -1 (no hinge), the cap is a half sphere, and the gap is 0. One class has
    no pairs: k is -1, and the cap is a point (radius 0, center norm 1). Tasks of different class counts share
    radius, center norm and half angle; only k differs.

    >>> round(region(5, 2, 0.15).k, 4), round(region(5, 2, 0.15).center_norm, 4)
    (-0.0625, 0.6847)
    """
    if num_tasks < 1 or num_classes < 1:
        raise ValueError(f"region needs at least one task and one class, got {num_tasks} and {num_classes}.")
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be in [0, 1), got {margin}: 1 would collapse all classes of a task.")
    if angle is not None and not 0 < angle <= math.pi:
        raise ValueError(
            f"angle must be in (0, pi], got {angle}: coinciding centers leave no room for regions."
        )
    if num_tasks == 1:
        if num_classes == 1:
            return Region(-1.0, -1.0, 0.0, 1.0, 0.0, 0.0)
        return Region(-1.0, -1.0, 1.0, 0.0, math.pi / 2, 0.0)
    if angle is None:
        angle = math.acos(-1 / (num_tasks - 1))
        sine_squared = num_tasks / (2 * (num_tasks - 1))
    else:
        sine_squared = math.sin(angle / 2) ** 2
    if num_classes == 1:
        return Region(-1.0, -1.0, 0.0, 1.0, 0.0, angle)
    # No arrangement has all class cosines below the simplex's, so a lower threshold would mean the same.
    floor = -1 / (num_classes - 1)
    k_min = max(floor, 1 - num_classes / (num_classes - 1) * sine_squared)
    k = max(floor, 1 - (1 - margin) * (1 - k_min))
    radius_squared = (1 - margin) * sine_squared
    radius = math.sqrt(radius_squared)
    half_angle = math.asin(min(1.0, radius))
    gap = max(0.0, angle - 2 * half_angle)
    return Region(k_min, k, radius, math.sqrt(max(0.0, 1 - radius_squared)), half_angle, gap)


def supcon_lower_bound(
    num_classes: int,
    rows_per_class: int,
    *,
    k: float | None = None,
    temperature: float = 1.0,
    sphere_radius: float = 1.0,
) -> float:
    """Smallest supervised contrastive loss, summed over the anchors of one balanced batch, under cosine >= k.

    For C classes of l rows each, B = C * l rows on a sphere of radius r, all pairs of different classes
    at cosine at least k:

        sum_i loss_i >= B * log(l - 1 + (B - l) * exp(-(1 - k) * r ** 2 / temperature))

    with equality exactly when every class is one point and all pairs of classes have cosine k (which needs
    C dimensions, or C - 1 at the smallest k). Divide by B for the mean. A k below -1/(C - 1), the default,
    is an inactive constraint and counts as that value. With one row per class no anchor has a positive: 0.

    >>> round(supcon_lower_bound(3, 2, temperature=1.0), 4)
    3.8275
    """
    if num_classes < 1 or rows_per_class < 1:
        raise ValueError(f"a batch needs at least one class and row, got {num_classes} and {rows_per_class}.")
    if temperature <= 0 or sphere_radius <= 0:
        raise ValueError(
            f"temperature and sphere_radius must be positive, got {temperature} and {sphere_radius}."
        )
    if k is not None and not k <= 1:
        raise ValueError(f"k is a cosine and must be at most 1, got {k}.")
    rows = num_classes * rows_per_class
    if rows_per_class == 1:
        return 0.0
    if num_classes == 1:
        return rows * math.log(rows_per_class - 1)
    floor = -1 / (num_classes - 1)
    k = floor if k is None else max(k, floor)
    positives = math.log(rows_per_class - 1)
    negatives = math.log(rows - rows_per_class) - (1 - k) * sphere_radius**2 / temperature
    high, low = max(positives, negatives), min(positives, negatives)
    return rows * (high + math.log1p(math.exp(low - high)))


def _rotation(dim: int, columns: int, generator: torch.Generator) -> Tensor:
    """Uniformly random orthonormal columns: (dim, columns) float64."""
    gaussian = torch.randn(dim, columns, dtype=torch.float64, generator=generator)
    q: Tensor
    q, r = torch.linalg.qr(gaussian)
    # The signs of R make the distribution uniform; without them QR prefers some orientations.
    return q * torch.where(r.diagonal() < 0, -1.0, 1.0)


def _simplex_coordinates(num_points: int) -> Tensor:
    """Vertices of the regular simplex in its own hyperplane: (K, K - 1) float64 unit rows."""
    # Column j of the Helmert basis is (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)) with j ones.
    j = torch.arange(1, num_points, dtype=torch.float64)
    row = torch.arange(num_points).unsqueeze(1)
    ones = (row < j).double()
    basis = (ones - j * (row == j).double()) / torch.sqrt(j * (j + 1))
    return basis * math.sqrt(num_points / (num_points - 1))


def _spread_points(num_points: int, dim: int, generator: torch.Generator) -> Tensor:
    """Unit rows with the largest smallest angle, for num_points > dim + 1: (K, d) float64."""
    if dim == 1:
        signs = 1.0 - 2.0 * (torch.arange(num_points) % 2)
        return signs.double().unsqueeze(1) * _rotation(1, 1, generator)
    if dim == 2:
        angles = 2 * math.pi * torch.arange(num_points, dtype=torch.float64) / num_points
        polygon = torch.stack([angles.cos(), angles.sin()], dim=1)
        return polygon @ _rotation(2, 2, generator).T
    if num_points <= 2 * dim:
        # More than dim + 1 points cannot all be more than 90 degrees apart (Rankin), and the axes reach 90.
        axes = torch.eye(dim, dtype=torch.float64)
        cross = torch.stack([axes, -axes], dim=1).flatten(0, 1)
        return cross[:num_points] @ _rotation(dim, dim, generator).T
    # Local minima are many when points are few, where restarts are cheap.
    restarts = max(1, min(8, 100 // num_points))
    candidates = [_repel(num_points, dim, generator) for _ in range(restarts)]
    return max(candidates, key=smallest_angle)


def _repel(num_points: int, dim: int, generator: torch.Generator) -> Tensor:
    """Minimize a soft maximum of the pairwise cosines, ever harder, from a random start: (K, d) float64."""
    points = torch.randn(num_points, dim, dtype=torch.float64, generator=generator)
    upper = torch.triu_indices(num_points, num_points, offset=1)
    for sharpness in (4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0):
        points = torch.nn.functional.normalize(points).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [points], max_iter=60, tolerance_change=1e-14, tolerance_grad=1e-12, line_search_fn="strong_wolfe"
        )

        def energy(
            points: Tensor = points, sharpness: float = sharpness, optimizer: torch.optim.LBFGS = optimizer
        ) -> Tensor:
            optimizer.zero_grad()
            unit = torch.nn.functional.normalize(points)
            cosines = (unit @ unit.T)[upper[0], upper[1]]
            value = torch.logsumexp(sharpness * cosines, dim=0) / sharpness
            value.backward()
            return value

        with torch.enable_grad():
            optimizer.step(energy)
        points = points.detach()
    return torch.nn.functional.normalize(points)
