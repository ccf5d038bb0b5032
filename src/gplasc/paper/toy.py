"""The paper's toy example: what thresholds and fixed centers do to features in three dimensions.

Free points on the sphere stand for the features of a network. Panels (a) to (d) hold one task of three
classes, without a threshold and with 0.3, 0.7 and 0.9 and a fixed prototype. Panels (e) and (f) hold three
such tasks that come one after the other, each trained alone and never moved again (no drift of past
features): plain SupCon against R2SCL with the vertices of a simplex as centers.
"""

from __future__ import annotations

import itertools
import math
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gplasc import geometry
from gplasc._io.display import display
from gplasc._io.files import write_atomic
from gplasc._io.table import Marked, Table
from gplasc.paper.descent import Shape, descend, r2scl, random_points
from gplasc.report import style
from gplasc.report.render import Section, render
from gplasc.report.sphere import Array, Cap, Sphere, TaskFeatures, sphere_figure

_NUM_CLASSES = 3
_NUM_TASKS = 3
_THRESHOLDS = (0.3, 0.7, 0.9)
_TOLERANCE = 0.02

# Settings that the paper leaves open. At temperature 0.3 both the collapse of classes and their separation
# are quick. 5 is above 1/temperature, so the hinge holds the threshold exactly (see `r2scl`).
_TEMPERATURE = 0.3
_LEARNING_RATE = 0.1
_RANGE_WEIGHT = 5.0
_POSITION_WEIGHT = 10.0
_MARGIN = 0.3

_INTRODUCTION = (
    "Free points on the sphere stand for features. Drag a sphere to turn it, and move "
    "the slider or press play to watch the optimization from its random start. Panels (a) to (d): one "
    "task of three classes; the red triangle joins the classes, the shaded cap is the region that the "
    "theorem predicts. Panels (e) and (f): three tasks, one after the other; past features stay put."
)


def run_toy(
    out: Path, *, seed: int = 0, steps: int = 400, points_per_class: int = 100
) -> list[dict[str, Any]]:
    """Run the toy example; print radius, center norm and distance of tasks next to the theorem's.

    The seed is that of the starting points and of the orientation of every task. Returns a row for each panel.
    """
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    region = geometry.region(_NUM_TASKS, _NUM_CLASSES, _MARGIN)
    centers = geometry.simplex_etf(_NUM_TASKS, 3, generator=generator).numpy()
    # Of each task the threshold and the direction (3,) of the center, or none.
    plan: dict[str, list[tuple[float | None, Array | None]]] = {"(a) no threshold": [(None, None)]}
    for letter, k in zip("bcd", _THRESHOLDS, strict=True):
        plan[f"({letter}) threshold {k}"] = [(k, np.array([0.0, 0.0, 1.0]))]
    plan["(e) 3 tasks, SupCon"] = [(None, None)] * _NUM_TASKS
    plan["(f) 3 tasks, R2SCL"] = [(region.k, center) for center in centers]
    train = partial(_train_task, points_per_class=points_per_class, steps=steps, generator=generator)
    with closing(display()) as shown:
        trained = []
        for name, tasks in plan.items():
            shown.phase(name)
            trained.append([train(*place, index) for index, place in enumerate(tasks)])
        shown.phase("figures, page")
        places = zip(plan.items(), trained, strict=True)
        rows = [_compare(name, regions[0][0], tasks) for (name, regions), tasks in places]
        rows[4]["caption"], rows[5]["caption"] = _closest(trained[4], 0.0), _closest(trained[5], region.gap)
        spheres = _spheres(rows, trained)
        files = _draw(spheres, out)
    _print(rows)
    print(f"{time.perf_counter() - began:.0f} s; written: {', '.join(map(str, files))}")
    return rows


def _train_task(
    k: float | None,
    center: Array | None,
    index: int = 0,
    *,
    points_per_class: int,
    steps: int,
    generator: torch.Generator,
) -> TaskFeatures:
    """Optimize the points of one task of three classes from a random start; k and center as in `r2scl`."""
    labels = torch.arange(_NUM_CLASSES).repeat_interleave(points_per_class)
    # Single precision is far finer than the tolerance, and twice as fast.
    start = random_points(len(labels), 3, generator).float()
    target = None if center is None else torch.from_numpy(center)
    weights = {"range_weight": _RANGE_WEIGHT, "position_weight": _POSITION_WEIGHT}

    def objective(z: Tensor, _: float) -> Tensor:
        return r2scl(z, labels, temperature=_TEMPERATURE, k=k, center=target, **weights)

    # Most of the movement is early: the film's pictures lie closer together there.
    record = {0, *(round(step) for step in np.geomspace(1, steps, 18))}
    history = descend(objective, start, steps=steps, learning_rate=_LEARNING_RATE, record=record)
    # The region that the theorem predicts.
    cap = None if center is None else Cap(center, math.asin(Shape.in_theory(_NUM_CLASSES, k).radius))
    points = torch.stack(history).double().numpy()
    return TaskFeatures(f"task {index + 1}", points, labels.numpy(), style.color(index), cap)


def _compare(name: str, k: float | None, tasks: list[TaskFeatures]) -> dict[str, Any]:
    """Compare the shape (mean over tasks) with the theorem's; the deviation is the worst of all tasks."""
    theory = Shape.in_theory(_NUM_CLASSES, k)
    shapes = [Shape.measured(torch.tensor(task.final), torch.tensor(task.labels)) for task in tasks]
    deviation = max(shape.deviation(theory) for shape in shapes)
    return {
        "panel": name,
        "k": k,
        "radius": float(np.mean([shape.radius for shape in shapes])),
        "theory_radius": theory.radius,
        "center_norm": float(np.mean([shape.center_norm for shape in shapes])),
        "theory_center_norm": theory.center_norm,
        "deviation": deviation,
        "agrees": deviation <= _TOLERANCE,
    }


def _closest(tasks: list[TaskFeatures], guaranteed: float) -> str:
    """Say how far apart features of different tasks are at least, and how far in theory; in radians."""
    cosine = max(float((a.final @ b.final.T).max()) for a, b in itertools.combinations(tasks, 2))
    angle = math.degrees(math.acos(min(1.0, cosine)))
    return f"closest features of two tasks {angle:.0f}°\nassured by theory {math.degrees(guaranteed):.0f}°"


def _spheres(rows: list[dict[str, Any]], trained: list[list[TaskFeatures]]) -> list[Sphere]:
    """The six panels with their cameras; a single task stands on the pole, so that (a) to (d) compare."""
    spheres = []
    for row, (task,) in zip(rows[:4], trained[:4], strict=True):
        corners = task.vertices / np.linalg.norm(task.vertices, axis=1, keepdims=True)
        normal = task.cap.axis if task.cap else np.cross(corners[1] - corners[0], corners[2] - corners[0])
        # A corner a little off the front shows the triangle from its best side.
        view = _seen_from(normal, corners[0] + 0.35 * np.cross(normal, corners[0]), 52)
        caption = (
            f"radius {row['radius']:.3f} (theory {row['theory_radius']:.3f})\n"
            f"center norm {row['center_norm']:.3f} (theory {row['theory_center_norm']:.3f})"
        )
        spheres.append(Sphere(row["panel"], caption, (task,), view, normal, style.STRUCTURE))
    first, second = (task.cap.axis for task in trained[5][:2] if task.cap)
    normal = np.cross(first, second)
    view = _seen_from(normal, first, 68)
    for row, tasks in zip(rows[4:], trained[4:], strict=True):
        spheres.append(Sphere(row["panel"], row["caption"], tuple(tasks), view, normal))
    return spheres


def _seen_from(axis: Array, azimuth: Array, elevation: float) -> Array:
    """View direction (3,): `elevation` degrees above the plane across `axis`, on the side of `azimuth`."""
    axis = axis / np.linalg.norm(axis)
    across = azimuth - (azimuth @ axis) * axis
    across = across / np.linalg.norm(across)
    return np.asarray(math.sin(math.radians(elevation)) * axis + math.cos(math.radians(elevation)) * across)


def _draw(spheres: list[Sphere], out: Path) -> list[Path]:
    """Write toy.png, toy.svg and toy.html."""
    title = "Regions on the sphere: SupCon and R2SCL"
    page = render(title, [_INTRODUCTION], [Section("Spheres", tuple(spheres))])
    with style.paper_style():
        pictures = style.save_figure(sphere_figure(spheres), out / "toy")
    return [*pictures, write_atomic(out / "toy.html", page)]


def _print(rows: list[dict[str, Any]]) -> None:
    """Print the shapes next to the theorem's, and how far apart the tasks are."""
    shapes = [
        [
            row["panel"],
            "none" if row["k"] is None else f"{row['k']:.4g}",
            *(f"{row[n]:.4f}" for n in ("radius", "theory_radius", "center_norm", "theory_center_norm")),
            f"{100 * row['deviation']:.2f}%",
            "yes" if row["agrees"] else Marked("no", "worse"),
        ]
        for row in rows
    ]
    columns = ["panel", "k", "radius", "theory", "center", "theory", "off by", "≤ 2%"]
    notes = [f"{row['panel']}: {row['caption']}".replace("\n", ", ") for row in rows[4:]]
    Table("Final features against the theorem", columns, shapes, notes).print()
