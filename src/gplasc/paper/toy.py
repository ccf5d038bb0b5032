"""The paper's toy example: what thresholds and fixed centers do to features in three dimensions.

Free points on the sphere stand for the features of a network. Panels (a) to (d) hold one task of three
classes, without a threshold and with 0.3, 0.7 and 0.9 and a fixed prototype. Panels (e) and (f) hold three
such tasks that come one after the other, each trained alone and never moved again (no drift of past
features): plain SupCon against R2SCL with the vertices of a simplex as centers.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gplasc import geometry
from gplasc._io.files import write_atomic
from gplasc._io.table import Marked, Table
from gplasc.paper.descent import descend, descent_progress, r2scl, random_points
from gplasc.paper.theory import Shape, measure_shape, theory_shape
from gplasc.report import style
from gplasc.report.render import render
from gplasc.report.section import Section
from gplasc.report.sphere import Cap, Sphere, TaskFeatures, sphere_figure

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
_BANDWIDTH = 0.2  # radians, of the kernel in the overlap

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainedTask:
    """One task: labels (N,), the recorded points (S, N, 3) from start to end, its threshold and center."""

    labels: Tensor
    history: Tensor
    k: float | None
    center: Tensor | None

    @property
    def shape(self) -> Shape:
        """Radius, center norm and class cosines of the final features."""
        return measure_shape(self.history[-1], self.labels)


@dataclass(frozen=True)
class ToyPanel:
    """What one sphere of the figure shows, measured and expected (the mean over its tasks)."""

    letter: str
    name: str
    k: float | None
    measured: Shape
    theory: Shape
    deviation: float
    agrees: bool


@dataclass(frozen=True)
class SphereOverlap:
    """How much tasks share the sphere; see `sphere_overlap`.

    run: of the features as trained; mean, worst: over the orientations among which the loss is indifferent.
    closest_degrees: smallest angle between features of different tasks; guaranteed_degrees: theory's promise.
    """

    run: float
    mean: float
    worst: float
    closest_degrees: float
    guaranteed_degrees: float


@dataclass(frozen=True)
class ToyResult:
    """All that `run_toy` measured and the files it wrote."""

    seed: int
    panels: tuple[ToyPanel, ...]
    overlap: dict[str, SphereOverlap]
    seconds: float
    files: tuple[Path, ...]

    @property
    def agrees(self) -> bool:
        """Whether every radius and center norm is within 2 % of the theorem's."""
        return all(panel.agrees for panel in self.panels)


def sphere_lattice(count: int) -> _Array:
    """Evenly spread points on the sphere, (count, 3): a Fibonacci spiral, each point for an equal area."""
    index = np.arange(count) + 0.5
    height = 1 - 2 * index / count
    turn = np.pi * (1 + math.sqrt(5)) * index
    ring = np.sqrt(1 - height**2)
    return np.stack([ring * np.cos(turn), ring * np.sin(turn), height], axis=1)


def sphere_overlap(tasks: list[_Array], *, bandwidth: float = _BANDWIDTH, count: int = 4000) -> float:
    """Overlap of tasks: the integral over the sphere of min(p_a, p_b), averaged over pairs of tasks.

    tasks: features (N, 3) of each task, unit rows. p is a kernel density with the von Mises-Fisher kernel
    exp(cos(angle) / bandwidth ** 2), normalized to 1 over the sphere; the integral is a sum over `count`
    evenly spread points. 0: no task reaches where another is; 1: the tasks have the same density. The
    bandwidth (radians) stands for the spread of real classes, since free points collapse entirely.
    """
    if len(tasks) < 2:
        raise ValueError(f"overlap needs at least two tasks, got {len(tasks)}")
    lattice = sphere_lattice(count)
    densities = []
    for features in tasks:
        weight = np.exp((lattice @ features.T - 1) / bandwidth**2).mean(axis=1)
        densities.append(weight / weight.sum())
    return float(np.mean([np.minimum(a, b).sum() for a, b in itertools.combinations(densities, 2)]))


def _turned(task: _Array, center: _Array | None, generator: torch.Generator) -> _Array:
    """The task turned at random among the places that its loss does not tell apart, (N, 3).

    Without a center every rotation of the sphere, with one the rotations about it.
    """
    if center is None:
        matrix, upper = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator))
        return np.asarray(task @ (matrix * upper.diagonal().sign()).numpy().T)
    angle = 2 * math.pi * float(torch.rand((), dtype=torch.float64, generator=generator))
    along = np.outer(task @ center, center)
    across = task - along
    return np.asarray(along + math.cos(angle) * across + math.sin(angle) * np.cross(center, across))


def measure_overlap(
    tasks: list[TrainedTask], *, guaranteed: float, generator: torch.Generator
) -> SphereOverlap:
    """Overlap of the trained tasks and of 100 random turns of them; `guaranteed`: radians between tasks."""
    # A class has collapsed to a point, so that its mean carries all of its density at a fraction of the cost.
    final = [task.history[-1].numpy() for task in tasks]
    centers = [None if task.center is None else task.center.numpy() for task in tasks]
    means = [_class_means(task) for task in tasks]
    draws = []
    for _ in range(100):
        turned = [_turned(rows, center, generator) for rows, center in zip(means, centers, strict=True)]
        draws.append(sphere_overlap(turned))
    closest = max(float((a @ b.T).max()) for a, b in itertools.combinations(final, 2))
    return SphereOverlap(
        run=sphere_overlap(final),
        mean=float(np.mean(draws)),
        worst=max(draws),
        closest_degrees=math.degrees(math.acos(min(1.0, closest))),
        guaranteed_degrees=math.degrees(guaranteed),
    )


def _class_means(task: TrainedTask) -> _Array:
    """Mean final feature of each class on the sphere, (classes, 3) unit rows."""
    rows = [task.history[-1][task.labels == label].mean(dim=0) for label in range(_NUM_CLASSES)]
    return np.asarray(torch.nn.functional.normalize(torch.stack(rows), dim=1).numpy())


def train_task(
    k: float | None,
    center: Tensor | None,
    *,
    points_per_class: int,
    steps: int,
    generator: torch.Generator,
    after_step: Callable[[], None] | None = None,
) -> TrainedTask:
    """Optimize the points of one task of three classes from a random start; k and center as in `r2scl`."""
    labels = torch.arange(_NUM_CLASSES).repeat_interleave(points_per_class)
    # Single precision is far finer than the tolerance, and twice as fast.
    start = random_points(len(labels), 3, generator).float()

    def objective(z: Tensor, _: float) -> Tensor:
        return r2scl(
            z,
            labels,
            temperature=_TEMPERATURE,
            k=k,
            range_weight=_RANGE_WEIGHT,
            center=center,
            position_weight=_POSITION_WEIGHT,
        )

    # Most of the movement is early: the film's pictures lie closer together there.
    record = {0, *(round(step) for step in np.geomspace(1, steps, 18))}
    history = descend(
        objective, start, steps=steps, learning_rate=_LEARNING_RATE, record=record, after_step=after_step
    )
    return TrainedTask(labels, torch.stack(history).double(), k, center)


def _compare(letter: str, name: str, tasks: list[TrainedTask]) -> ToyPanel:
    """Measured shape (mean over tasks) beside the theorem's; the deviation is the worst of all tasks."""
    k = tasks[0].k
    theory = theory_shape(_NUM_CLASSES, k)
    shapes = [task.shape for task in tasks]
    deviation = max(shape.deviation(theory) for shape in shapes)
    measured = Shape(*(float(np.mean(column)) for column in zip(*map(astuple, shapes), strict=True)))
    return ToyPanel(letter, name, k, measured, theory, deviation, deviation <= _TOLERANCE)


def _seen_from(axis: _Array, azimuth: _Array, elevation: float) -> _Array:
    """View direction (3,): `elevation` degrees above the plane across `axis`, on the side of `azimuth`."""
    across = azimuth - (azimuth @ axis) * axis
    across = across / np.linalg.norm(across)
    return np.asarray(math.sin(math.radians(elevation)) * axis + math.cos(math.radians(elevation)) * across)


def _draw(
    panel: ToyPanel, tasks: list[TrainedTask], view: _Array, pole: _Array, overlap: SphereOverlap | None
) -> Sphere:
    """The panel as the drawing code takes it."""
    drawn = []
    for index, task in enumerate(tasks):
        cap = None
        if task.center is not None:
            cap = Cap(task.center.numpy(), math.asin(panel.theory.radius))
        drawn.append(
            TaskFeatures(
                f"task {index + 1}", task.history.numpy(), task.labels.numpy(), style.color(index), cap
            )
        )
    if overlap is None:
        caption = (
            f"radius {panel.measured.radius:.3f} (theory {panel.theory.radius:.3f})\n"
            f"center norm {panel.measured.center_norm:.3f} (theory {panel.theory.center_norm:.3f})"
        )
        structure = style.STRUCTURE
    else:
        caption = (
            f"overlap of tasks {overlap.run:.3f}, at worst {overlap.worst:.3f}\n"
            f"closest features {overlap.closest_degrees:.0f}°, assured {overlap.guaranteed_degrees:.0f}°"
        )
        structure = None
    return Sphere(f"({panel.letter}) {panel.name}", caption, tuple(drawn), view, pole, structure)


def run_toy(out: Path, *, seed: int = 0, steps: int = 400, points_per_class: int = 100) -> ToyResult:
    """Run the toy example and print radius, center norm and overlap of tasks beside the theorem's.

    Args:
        out: Folder for toy.png, toy.svg, toy.html and toy.json.
        seed: Seed of the starting points and of the orientation of every task.
        steps: Steps of each descent.
        points_per_class: Points of each class.

    Returns:
        What was measured and the files written.

    Raises:
        UserError: If matplotlib or jinja2 is missing.
    """
    out = Path(out)
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    region = geometry.region(_NUM_TASKS, _NUM_CLASSES, _MARGIN)
    prototype = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    centers = geometry.simplex_etf(_NUM_TASKS, 3, generator=generator)
    plan: dict[str, list[tuple[float | None, Tensor | None]]] = {"no threshold": [(None, None)]}
    plan |= {f"threshold {k}": [(k, prototype)] for k in _THRESHOLDS}
    plan["3 tasks, SupCon"] = [(None, None)] * _NUM_TASKS
    plan["3 tasks, R2SCL"] = [(region.k, center) for center in centers]
    trained: list[list[TrainedTask]] = []
    with descent_progress(steps * sum(map(len, plan.values()))) as (describe, after_step):
        for name, tasks in plan.items():
            describe(name)
            trained.append(
                [
                    train_task(
                        k,
                        center,
                        points_per_class=points_per_class,
                        steps=steps,
                        generator=generator,
                        after_step=after_step,
                    )
                    for k, center in tasks
                ]
            )
        describe("overlap, figures, page")
        panels = [
            _compare(letter, name, tasks) for letter, name, tasks in zip("abcdef", plan, trained, strict=True)
        ]
        overlap = {
            "supcon": measure_overlap(trained[4], guaranteed=0.0, generator=generator),
            "r2scl": measure_overlap(trained[5], guaranteed=region.gap, generator=generator),
        }
        spheres = _spheres(panels, trained, overlap)
        files = [*_figure(spheres, out), _page(spheres, out)]
    record = {
        "seed": seed,
        "steps": steps,
        "points_per_class": points_per_class,
        "settings": {
            "temperature": _TEMPERATURE,
            "learning_rate": _LEARNING_RATE,
            "range_weight": _RANGE_WEIGHT,
            "position_weight": _POSITION_WEIGHT,
            "margin": _MARGIN,
            "bandwidth": _BANDWIDTH,
        },
        "agrees": all(panel.agrees for panel in panels),
        "panels": [asdict(panel) for panel in panels],
        "overlap": {name: asdict(value) for name, value in overlap.items()},
    }
    files.append(write_atomic(out / "toy.json", json.dumps(record, indent=2) + "\n"))
    result = ToyResult(seed, tuple(panels), overlap, time.perf_counter() - began, tuple(files))
    _print(result)
    return result


def _spheres(
    panels: list[ToyPanel], trained: list[list[TrainedTask]], overlap: dict[str, SphereOverlap]
) -> list[Sphere]:
    """The six panels with their cameras; a single task stands on the pole, so that (a) to (d) compare."""
    spheres = []
    for panel, tasks in zip(panels[:4], trained[:4], strict=True):
        corners = _class_means(tasks[0])
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal = normal / np.linalg.norm(normal)
        if tasks[0].center is not None:
            normal = tasks[0].center.numpy()
        # A corner a little off the front shows the triangle from its best side.
        side = corners[0] + 0.35 * np.cross(normal, corners[0])
        spheres.append(_draw(panel, tasks, _seen_from(normal, side, 52), normal, None))
    first, second = (task.center.numpy() for task in trained[5][:2] if task.center is not None)
    normal = np.cross(first, second)
    normal = normal / np.linalg.norm(normal)
    view = _seen_from(normal, first, 68)
    for panel, tasks, measured in zip(panels[4:], trained[4:], overlap.values(), strict=True):
        spheres.append(_draw(panel, tasks, view, normal, measured))
    return spheres


def _figure(spheres: list[Sphere], out: Path) -> list[Path]:
    """Write toy.png and toy.svg."""
    with style.paper_style():
        return style.save_figure(sphere_figure(spheres), out / "toy")


def _page(spheres: list[Sphere], out: Path) -> Path:
    """Write toy.html."""
    introduction = (
        "Free points on the sphere stand for features. Drag a sphere to turn it, and move "
        "the slider or press play to watch the optimization from its random start. Panels (a) to (d): one "
        "task of three classes; the red triangle joins the classes, the shaded cap is the region that the "
        "theorem predicts. Panels (e) and (f): three tasks, one after the other; past features stay put."
    )
    title = "Regions on the sphere: SupCon and R2SCL"
    page = render(title, [introduction], [Section("Spheres", tuple(spheres))])
    return write_atomic(out / "toy.html", page)


def _print(result: ToyResult) -> None:
    """Print two tables, shapes against the theorem and the overlap of tasks, then the files."""
    Table(
        "Final features against the theorem",
        ["panel", "k", "radius", "theory", "center", "theory", "off by", "≤ 2%"],
        [
            [
                f"({panel.letter}) {panel.name}",
                "none" if panel.k is None else f"{panel.k:.4g}",
                f"{panel.measured.radius:.4f}",
                f"{panel.theory.radius:.4f}",
                f"{panel.measured.center_norm:.4f}",
                f"{panel.theory.center_norm:.4f}",
                f"{100 * panel.deviation:.2f}%",
                "yes" if panel.agrees else Marked("no", "worse"),
            ]
            for panel in result.panels
        ],
    ).print()
    Table(
        "Overlap of three tasks (0 apart, 1 the same) and angle between them",
        ["panel", "this run", "mean turn", "worst turn", "closest", "assured"],
        [
            [
                name,
                *(f"{value:.4f}" for value in (found.run, found.mean, found.worst)),
                *(f"{angle:.1f}°" for angle in (found.closest_degrees, found.guaranteed_degrees)),
            ]
            for name, found in zip(("(e) SupCon", "(f) R2SCL"), result.overlap.values(), strict=True)
        ],
    ).print()
    print(f"{result.seconds:.0f} s; written: {', '.join(map(str, result.files))}")
