"""The geometry of GPLASC: the directions of the tasks on the unit sphere and the size of their regions.

Each task has a region, a spherical cap. The centers of the caps are the rows of a frame: by default the vertices of a
simplex equiangular tight frame (ETF). Inside a cap the class means form a regular simplex with pairwise cosine k.
All functions work on numbers and float64 tensors, without a network; a value out of its range is a ValueError.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "Region",
    "class_places",
    "nonnegative_frame",
    "orthonormal_frame",
    "region",
    "simplex_etf",
    "smallest_angle",
    "supcon_lower_bound",
]


@dataclass(frozen=True)
class Region:
    """The cap of one task. Angles are in radians.

    Attributes:
        k_min: The smallest threshold at which neighboring caps touch without overlapping (margin 0).
        k: The threshold for the cosine between classes of the task; -1 disables the hinge.
        radius: The distance of the class means from their center, `sqrt((1 - margin)) * sin(angle / 2)`.
        center_norm: The norm of that center, `sqrt(1 - radius ** 2)`.
        half_angle: The angle between the axis of the cap and a class mean, `arcsin(radius)`.
        gap: The angle between neighboring caps.
    """

    k_min: float
    k: float
    radius: float
    center_norm: float
    half_angle: float
    gap: float


def simplex_etf(num_points: int, dim: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Return the vertices of a regular simplex in a random orientation: unit rows (num_points, dim), float64.

    The rows sum to zero and have pairwise cosine -1 / (num_points - 1). This needs `dim >= num_points - 1`. With fewer
    dimensions no simplex exists: the rows are then placed so that the smallest angle between them is as large as
    possible (exact up to 2 * dim points and for dim 2, numerical otherwise), and a warning is issued. A single point
    is a random unit vector.

    Args:
        num_points: The number of vertices.
        dim: The number of dimensions.
        generator: A CPU generator for the orientation. Default: a new one with seed 0.

    >>> points = simplex_etf(4, 3)
    >>> bool(torch.allclose(points @ points.T, torch.full((4, 4), -1 / 3).double().fill_diagonal_(1)))
    True
    """
    _, generator = _first_rows(None, num_points, dim, generator)
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


def orthonormal_frame(
    num_points: int, dim: int, *, start: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Return random orthonormal rows (num_points, dim), float64, or extend given rows by orthogonal ones.

    A simplex of K points cannot get another point without moving the K; an orthonormal frame can, up to `dim` points.
    The cost is a smaller angle between the rows, 90 degrees instead of arccos(-1 / (K - 1)).

    Args:
        num_points: The number of rows to return, those of `start` included.
        dim: The number of dimensions.
        start: Unit rows of shape (S, dim) with S <= num_points that come first and are returned unchanged.
        generator: A CPU generator. Default: a new one with seed 0.

    Raises:
        ValueError: If `dim` dimensions have no room for so many rows.

    >>> two = orthonormal_frame(2, 3)
    >>> three = orthonormal_frame(3, 3, start=two)
    >>> torch.equal(three[:2], two), bool(torch.allclose(three @ three.T, torch.eye(3).double()))
    (True, True)
    """
    start, generator = _first_rows(start, num_points, dim, generator)
    basis = torch.linalg.svd(start, full_matrices=False)
    basis = basis.Vh[basis.S > 1e-6]
    missing = num_points - len(start)
    if missing > dim - len(basis):
        raise ValueError(
            f"{dim} dimensions have room for {dim - len(basis)} more orthogonal rows next to the {len(start)} given, "
            f"not for {missing}: use features of more dimensions."
        )
    gaussian = torch.randn(missing, dim, dtype=torch.float64, generator=generator)
    for _ in range(2):  # the second pass removes the rounding error of the first
        gaussian = torch.linalg.qr((gaussian - gaussian @ basis.T @ basis).T)[0].T
    return torch.cat([start, gaussian])


def nonnegative_frame(
    num_points: int, dim: int, *, start: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Return orthonormal rows without negative entries, or extend given ones.

    Non-negative features, such as pooled ReLU outputs, cannot reach a direction with negative entries. Non-negative
    rows are orthogonal exactly if no two are nonzero in the same column: each row here has its own random set of
    columns, all with the same value. New rows take 1 of 2 * num_points equal parts of the free columns each, so that
    a frame can be extended; each extension leaves at least half of the free columns free, while there are enough.

    Arguments and result are those of `orthonormal_frame`.

    Raises:
        ValueError: If fewer columns are free than rows are missing.

    >>> rows = nonnegative_frame(2, 8)
    >>> bool((rows >= 0).all()), bool(torch.allclose(rows @ rows.T, torch.eye(2).double()))
    (True, True)
    """
    start, generator = _first_rows(start, num_points, dim, generator)
    missing = num_points - len(start)
    free = (start == 0).all(dim=0).nonzero().flatten()
    if missing > len(free):
        raise ValueError(
            f"{len(free)} of {dim} dimensions are free, {missing} more rows need at least one each: use features of "
            "more dimensions."
        )
    width = max(1, len(free) // (2 * num_points))
    columns = free[torch.randperm(len(free), generator=generator)][: missing * width].reshape(missing, width)
    rows = torch.zeros(missing, dim, dtype=torch.float64).scatter_(1, columns, width**-0.5)
    return torch.cat([start, rows])


def smallest_angle(points: Tensor) -> float:
    """Return the smallest angle between two rows, in radians.

    Args:
        points: Unit rows of shape (K, D), K >= 1; a single row has the angle pi.
    """
    if points.ndim != 2 or len(points) == 0:
        raise ValueError(f"points must have shape (K, D) with K >= 1, got {tuple(points.shape)}.")
    if len(points) == 1:
        return math.pi
    # arccos loses half of the digits near 0 and pi; half the chord does not near 0, where it matters.
    chords = torch.pdist(points.detach().double().cpu())
    return 2 * math.asin(min(1.0, float(chords.min()) / 2))


def region(num_tasks: int, num_classes: int, margin: float, *, angle: float | None = None) -> Region:
    """Return the size of the region of a task.

        k_min = 1 - C / (C - 1) * sin(angle / 2) ** 2,    k = k_min + margin * (1 - k_min),    C = num_classes

    Tasks with different numbers of classes have the same radius, center norm and half angle; only k differs. A single
    task has no neighbors: k is -1 (no hinge), the cap is a half sphere and the gap is 0. A single class has no pairs:
    k is -1, and the cap is a point (radius 0, center norm 1).

    Args:
        num_tasks: The number of tasks.
        num_classes: The number of classes of this task.
        margin: The share by which the squared radius is reduced, in [0, 1). With 0 neighboring caps touch.
        angle: The smallest angle between two centers. Default: that of the simplex, arccos(-1 / (num_tasks - 1)).

    >>> round(region(5, 2, 0.15).k, 4), round(region(5, 2, 0.15).center_norm, 4)
    (-0.0625, 0.6847)
    """
    if num_tasks < 1 or num_classes < 1:
        raise ValueError(f"region needs at least one task and one class, got {num_tasks} and {num_classes}.")
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be in [0, 1), got {margin}: 1 would collapse all classes of a task.")
    if angle is not None and not 0 < angle <= math.pi:
        raise ValueError(f"angle must be in (0, pi], got {angle}: equal centers leave no room for regions.")
    if num_tasks == 1:
        half_sphere = Region(-1.0, -1.0, 1.0, 0.0, math.pi / 2, 0.0)
        return half_sphere if num_classes > 1 else Region(-1.0, -1.0, 0.0, 1.0, 0.0, 0.0)
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


def class_places(
    vertex: Tensor, num_classes: int, size: Region, *, generator: torch.Generator | None = None
) -> Tensor:
    """Return a place for each class of a task: unit rows (num_classes, D), a simplex around the task's vertex.

    Place c is `size.center_norm * vertex + size.radius * s_c` with the vertices s_c of a simplex that is orthogonal to
    `vertex`. So the mean of the places is the center of the region, and their pairwise cosine is `size.k`.

    Args:
        vertex: The direction of the task, a unit vector of shape (D,).
        num_classes: The number of classes of the task.
        size: The size of the region, from `region`.
        generator: A CPU generator for the orientation. Default: a new one with seed 0.

    >>> size = region(5, 2, 0.1)
    >>> places = class_places(simplex_etf(5, 8)[0], 2, size)
    >>> math.isclose(places[0] @ places[1], size.k), math.isclose(places.mean(0).norm(), size.center_norm)
    (True, True)
    """
    vertex = vertex.detach().double().cpu()
    if num_classes == 1:
        return vertex.unsqueeze(0)
    generator = generator or torch.Generator().manual_seed(0)
    simplex = simplex_etf(num_classes, len(vertex) - 1, generator=generator)
    around = orthonormal_frame(len(vertex), len(vertex), start=vertex.unsqueeze(0), generator=generator)[1:]
    return size.center_norm * vertex + size.radius * simplex @ around


def supcon_lower_bound(
    num_classes: int,
    rows_per_class: int,
    *,
    k: float | None = None,
    temperature: float = 1.0,
    sphere_radius: float = 1.0,
) -> float:
    """Return the smallest sum of supervised contrastive losses over one balanced batch with all cosines >= k.

    For C classes of l rows each, B = C * l rows on a sphere of radius r, and all pairs of different classes with a
    cosine of at least k:

        sum_i loss_i >= B * log(l - 1 + (B - l) * exp(-(1 - k) * r ** 2 / temperature))

    Equality holds exactly if all rows of a class are equal and all pairs of classes have cosine k (this needs C
    dimensions, or C - 1 for the smallest k). With one row per class no anchor has a positive, and the sum is 0. Divide
    by B for the mean over the anchors.

    Args:
        num_classes: The number of classes C.
        rows_per_class: The number of rows l of each class.
        k: The lower bound of the cosines. Default, and for values below it: -1 / (C - 1), no constraint.
        temperature: The temperature of the loss.
        sphere_radius: The norm r of the rows.

    >>> round(supcon_lower_bound(3, 2, temperature=1.0), 4)
    3.8275
    """
    if num_classes < 1 or rows_per_class < 1:
        raise ValueError(f"a batch needs at least one class and row, got {num_classes} and {rows_per_class}.")
    if temperature <= 0 or sphere_radius <= 0:
        given = f"{temperature} and {sphere_radius}"
        raise ValueError(f"temperature and sphere_radius must be positive, got {given}.")
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
    return rows * float(np.logaddexp(positives, negatives))


def _first_rows(
    start: Tensor | None, num_points: int, dim: int, generator: torch.Generator | None
) -> tuple[Tensor, torch.Generator]:
    """Check the size of a frame; return its first rows, (S, dim) float64 on the CPU, and the generator."""
    if num_points < 1 or dim < 1:
        raise ValueError(f"a frame needs at least one point and one dimension, got {num_points} and {dim}.")
    start = torch.zeros(0, dim) if start is None else start.detach().cpu()
    if start.ndim != 2 or start.shape[1] != dim or len(start) > num_points:
        raise ValueError(f"start must have shape (S, {dim}), S <= {num_points}, got {tuple(start.shape)}.")
    return start.double(), generator or torch.Generator().manual_seed(0)


def _rotation(dim: int, columns: int, generator: torch.Generator) -> Tensor:
    """Uniformly random orthonormal columns: (dim, columns) float64."""
    q, r = torch.linalg.qr(torch.randn(dim, columns, dtype=torch.float64, generator=generator))
    # The signs of R make the distribution uniform; without them QR prefers some orientations.
    signed: Tensor = q * torch.where(r.diagonal() < 0, -1.0, 1.0)
    return signed


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

        def energy(points: Tensor = points, sharpness: float = sharpness) -> Tensor:
            points.grad = None
            unit = torch.nn.functional.normalize(points)
            cosines = (unit @ unit.T)[upper[0], upper[1]]
            value = torch.logsumexp(sharpness * cosines, dim=0) / sharpness
            value.backward()
            return value

        with torch.enable_grad():
            optimizer.step(energy)
        points = points.detach()
    return torch.nn.functional.normalize(points)
