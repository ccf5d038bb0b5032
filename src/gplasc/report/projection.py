"""Features of many dimensions on a sphere in three.

A sphere shows the three directions that hold most of the task centers (a center is the mean of the means of a task's
classes, of unit features): the eigenvectors of the cosines between the centers that have the largest eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gplasc.report import style
from gplasc.report.sphere import Array, Cap, Sphere, TaskFeatures
from gplasc.report.wording import file_name
from gplasc.results.record import Record


def feature_sphere(
    title: str, features: Sequence[Array], labels: Sequence[NDArray[np.int64]], names: Sequence[str]
) -> Sphere:
    """The features of all tasks, projected to the three directions and drawn straight out to the surface.

    features: (N, D) of the samples of each task, of any length; labels: (N,) their classes; names: of all classes.
    """
    rows = [_unit(x) for x in features]
    means = [[x[y == label].mean(0) for label in np.unique(y)] for x, y in zip(rows, labels, strict=True)]
    centers = _unit(np.stack([np.mean(classes, axis=0) for classes in means]))
    gram = centers @ centers.T
    vectors, lengths, share = _largest(gram)
    directions = centers.T @ vectors / np.where(lengths > 1e-6, lengths, np.inf)  # (D, 3), orthonormal
    points = [x @ directions for x in rows]
    shown = sum(float((x**2).sum()) for x in points) / sum(map(len, points))
    tasks = []
    for index, (x, y) in enumerate(zip(points, labels, strict=True)):
        marks = tuple(names[c] for c in np.unique(y))
        tasks.append(TaskFeatures(f"task {index + 1}", _unit(x)[None], y, style.color(index), marks=marks))
    caption = (
        f"The three directions hold {shown:.0%} of the squared length of the features and {share:.0%} of that of "
        f"the task centers. Mean cosine between the centers: {_mean_cosine(gram)}."
    )
    place = _facing(vectors * lengths)
    return Sphere(title, caption, tuple(tasks), *place, name=f"features-{file_name(title)}")


def center_sphere(record: Record, name: str) -> Sphere | None:
    """The task centers of a run at the end with their regions; None when the record has none."""
    if not record.geometry:
        return None
    last = record.geometry[-1]
    gram = np.array(last.center_cosines, dtype=float)
    if len(gram) < 2 or not np.isfinite(gram).all():
        return None
    vectors, lengths, share = _largest(gram)
    points = _unit(vectors * lengths)
    tasks = []
    for index, point in enumerate(points):
        angle = math.atan2(last.radius[index], max(last.center_norm[index], 1e-9))
        if not math.isfinite(angle) or not np.linalg.norm(point) > 0.5:
            return None
        # A cap is less than half of the ball, and a collapsed one would not be seen.
        cap = Cap(point, min(max(angle, 0.02), 1.55))
        number = str(index + 1)
        label = np.zeros(1, dtype=np.int64)
        tasks.append(
            TaskFeatures(f"task {number}", point.reshape(1, 1, 3), label, style.color(index), cap, (number,))
        )
    if share > 0.999:
        exact = "exactly"
    else:
        exact = f"with {share:.1%} of their spread; regions may overlap here that are apart in all dimensions"
    caption = (
        f"Three dimensions hold the {len(points)} task centers {exact}. Each region is the cap whose angle is that of "
        f"the task's radius seen from the origin. Mean cosine between centers: {_mean_cosine(gram)}. Drag to turn."
    )
    title = f"Task regions of {name}, seed {record.seed}"
    return Sphere(title, caption, tuple(tasks), *_facing(points), name=f"sphere-{file_name(name)}")


def _unit(rows: Array) -> Array:
    """Rows (N, D) divided by their length; rows without length stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 1e-9, lengths, 1.0))


def _largest(gram: Array) -> tuple[Array, Array, float]:
    """The three largest eigenvectors (T, 3) of a Gram matrix (T, T), the roots of their values, and their share."""
    values, vectors = np.linalg.eigh(gram)
    kept, chosen = np.zeros(3), np.zeros((len(gram), 3))
    kept[: len(gram)] = values[::-1][:3].clip(0)
    chosen[:, : len(gram)] = vectors[:, ::-1][:, :3]
    return chosen, np.sqrt(kept), float(kept.sum() / max(values.clip(0).sum(), 1e-12))


def _facing(points: Array) -> tuple[Array, Array]:
    """View and pole: face the points where they crowd on one side, from a little above."""
    middle = points.mean(0)
    length = float(np.linalg.norm(middle))
    front = middle / length if length > 0.2 else np.array([0.8, 0.6, 0.0])
    view = front + 0.35 * np.cross(front, np.eye(3)[np.argmin(np.abs(front))])
    return view, np.eye(3)[np.argmin(np.abs(view))]


def _mean_cosine(gram: Array) -> str:
    return f"{gram[np.triu_indices(len(gram), 1)].mean():.2f}".replace("-", "−")
