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
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor

from gplasc import geometry
from gplasc.experiments.descent import descend, r2scl, random_points
from gplasc.experiments.theory import Shape, measure_shape, theory_shape
from gplasc.files import write_atomic
from gplasc.report import style
from gplasc.report.sphere import Cap, SpherePanel, TaskFeatures, sphere_figure, sphere_page

NUM_CLASSES = 3
NUM_TASKS = 3
THRESHOLDS = (None, 0.3, 0.7, 0.9)
TOLERANCE = 0.02

# Settings that the paper leaves open. At temperature 0.3 both the collapse of classes and their separation
# are quick. 5 is above 1/temperature, so the hinge holds the threshold exactly (see `r2scl`).
TEMPERATURE = 0.3
LEARNING_RATE = 0.1
RANGE_WEIGHT = 5.0
POSITION_WEIGHT = 10.0
MARGIN = 0.3
BANDWIDTH = 0.2  # radians, of the kernel in the overlap

Array = NDArray[np.float64]


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
class Panel:
    """What one sphere of the figure shows, measured and expected (the mean over its tasks)."""

    letter: str
    name: str
    k: float | None
    measured: Shape
    theory: Shape
    deviation: float
    agrees: bool


@dataclass(frozen=True)
class Overlap:
    """How much tasks share the sphere; see `task_overlap`.

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
    panels: tuple[Panel, ...]
    overlap: dict[str, Overlap]
    seconds: float
    files: tuple[Path, ...]

    @property
    def agrees(self) -> bool:
        """Whether every radius and center norm is within 2 % of the theorem's."""
        return all(panel.agrees for panel in self.panels)


def sphere_lattice(count: int) -> Array:
    """Evenly spread points on the sphere, (count, 3): a Fibonacci spiral, each point for an equal area."""
    index = np.arange(count) + 0.5
    height = 1 - 2 * index / count
    turn = np.pi * (1 + math.sqrt(5)) * index
    ring = np.sqrt(1 - height**2)
    return np.stack([ring * np.cos(turn), ring * np.sin(turn), height], axis=1)


def task_overlap(tasks: list[Array], *, bandwidth: float = BANDWIDTH, count: int = 4000) -> float:
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


def _turned(task: Array, center: Array | None, generator: torch.Generator) -> Array:
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


def measure_overlap(tasks: list[TrainedTask], *, guaranteed: float, generator: torch.Generator) -> Overlap:
    """Overlap of the trained tasks and of 100 random turns of them; `guaranteed`: radians between tasks."""
    # A class has collapsed to a point, so that its mean carries all of its density at a fraction of the cost.
    final = [task.history[-1].numpy() for task in tasks]
    centers = [None if task.center is None else task.center.numpy() for task in tasks]
    means = [_class_means(task) for task in tasks]
    draws = []
    for _ in range(100):
        turned = [_turned(rows, center, generator) for rows, center in zip(means, centers, strict=True)]
        draws.append(task_overlap(turned))
    closest = max(float((a @ b.T).max()) for a, b in itertools.combinations(final, 2))
    return Overlap(
        run=task_overlap(final),
        mean=float(np.mean(draws)),
        worst=max(draws),
        closest_degrees=math.degrees(math.acos(min(1.0, closest))),
        guaranteed_degrees=math.degrees(guaranteed),
    )


def _class_means(task: TrainedTask) -> Array:
    """Mean final feature of each class on the sphere, (classes, 3) unit rows."""
    rows = [task.history[-1][task.labels == label].mean(dim=0) for label in range(NUM_CLASSES)]
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
    labels = torch.arange(NUM_CLASSES).repeat_interleave(points_per_class)
    # Single precision is far finer than the tolerance, and twice as fast.
    start = random_points(len(labels), 3, generator).float()

    def objective(z: Tensor, _: float) -> Tensor:
        return r2scl(
            z,
            labels,
            temperature=TEMPERATURE,
            k=k,
            range_weight=RANGE_WEIGHT,
            center=center,
            position_weight=POSITION_WEIGHT,
        )

    # Most of the movement is early: the film's pictures lie closer together there.
    record = {0, *(round(step) for step in np.geomspace(1, steps, 18))}
    history = descend(
        objective, start, steps=steps, learning_rate=LEARNING_RATE, record=record, after_step=after_step
    )
    return TrainedTask(labels, torch.stack(history).double(), k, center)


def _compare(letter: str, name: str, tasks: list[TrainedTask]) -> Panel:
    """Measured shape (mean over tasks) beside the theorem's; the deviation is the worst of all tasks."""
    k = tasks[0].k
    theory = theory_shape(NUM_CLASSES, k)
    shapes = [task.shape for task in tasks]
    deviation = max(shape.deviation(theory) for shape in shapes)
    measured = Shape(*(float(np.mean(column)) for column in zip(*map(_values, shapes), strict=True)))
    return Panel(letter, name, k, measured, theory, deviation, deviation <= TOLERANCE)


def _values(shape: Shape) -> tuple[float, float, float, float]:
    return shape.radius, shape.center_norm, shape.smallest_cosine, shape.largest_cosine


def _seen_from(axis: Array, azimuth: Array, elevation: float) -> Array:
    """View direction (3,): `elevation` degrees above the plane across `axis`, on the side of `azimuth`."""
    across = azimuth - (azimuth @ axis) * axis
    across = across / np.linalg.norm(across)
    return np.asarray(math.sin(math.radians(elevation)) * axis + math.cos(math.radians(elevation)) * across)


def _draw(
    panel: Panel, tasks: list[TrainedTask], view: Array, pole: Array, overlap: Overlap | None
) -> SpherePanel:
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
    return SpherePanel(f"({panel.letter}) {panel.name}", caption, tuple(drawn), view, pole, structure)


def run_toy(
    out: Path,
    *,
    seed: int = 0,
    steps: int = 400,
    points_per_class: int = 100,
    console: Console | None = None,
) -> ToyResult:
    """Run the toy example and write toy.png, toy.svg, toy.html and toy.json into the folder `out`.

    Prints the measured radius and center norm of each panel beside the theorem's and the overlap of tasks.
    Progress goes to standard error, tables to `console` (standard output by default). The orientation of
    every task comes from `seed`. Raises UserError when matplotlib or plotly is missing.
    """
    console = console or Console()
    out = Path(out)
    style.require("matplotlib", "plotly")
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    shape = geometry.region(NUM_TASKS, NUM_CLASSES, MARGIN)
    prototype = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    centers = geometry.simplex_etf(NUM_TASKS, 3, generator=generator)
    plan: list[tuple[str, str, list[tuple[float | None, Tensor | None]]]] = []
    for letter, k in zip("abcd", THRESHOLDS, strict=True):
        plan.append(
            (letter, "no threshold", [(None, None)])
            if k is None
            else (letter, f"threshold {k}", [(k, prototype)])
        )
    plan.append(("e", "3 tasks, SupCon", [(None, None)] * NUM_TASKS))
    plan.append(("f", "3 tasks, R2SCL", [(shape.k, center) for center in centers]))

    trained: list[list[TrainedTask]] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, quiet=console.quiet), transient=True) as progress:
        bar = progress.add_task("toy", total=steps * sum(len(tasks) for _, _, tasks in plan))
        for letter, name, tasks in plan:
            progress.update(bar, description=f"({letter}) {name}")
            trained.append(
                [
                    train_task(
                        k,
                        center,
                        points_per_class=points_per_class,
                        steps=steps,
                        generator=generator,
                        after_step=lambda: progress.advance(bar),
                    )
                    for k, center in tasks
                ]
            )
        progress.update(bar, description="overlap, figures, page")
        panels = [
            _compare(letter, name, tasks) for (letter, name, _), tasks in zip(plan, trained, strict=True)
        ]
        overlap = {
            "supcon": measure_overlap(trained[4], guaranteed=0.0, generator=generator),
            "r2scl": measure_overlap(trained[5], guaranteed=shape.gap, generator=generator),
        }
        spheres = _spheres(panels, trained, overlap)
        files = [*_figure(spheres, out), _page(spheres, out)]
    record = {
        "seed": seed,
        "steps": steps,
        "points_per_class": points_per_class,
        "settings": {
            "temperature": TEMPERATURE,
            "learning_rate": LEARNING_RATE,
            "range_weight": RANGE_WEIGHT,
            "position_weight": POSITION_WEIGHT,
            "margin": MARGIN,
            "bandwidth": BANDWIDTH,
        },
        "agrees": all(panel.agrees for panel in panels),
        "panels": [asdict(panel) for panel in panels],
        "overlap": {name: asdict(value) for name, value in overlap.items()},
    }
    files.append(write_atomic(out / "toy.json", json.dumps(record, indent=2) + "\n"))
    result = ToyResult(seed, tuple(panels), overlap, time.perf_counter() - began, tuple(files))
    _print(result, console)
    return result


def _spheres(
    panels: list[Panel], trained: list[list[TrainedTask]], overlap: dict[str, Overlap]
) -> list[SpherePanel]:
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


def _figure(spheres: list[SpherePanel], out: Path) -> list[Path]:
    """Write toy.png and toy.svg."""
    with style.paper_style():
        return style.save_figure(sphere_figure(spheres), out / "toy")


def _page(spheres: list[SpherePanel], out: Path) -> Path:
    """Write toy.html."""
    introduction = (
        "Free points on the sphere stand for features. Drag a sphere to turn it, scroll to zoom, and move "
        "the slider or press play to watch the optimization from its random start. Panels (a) to (d): one "
        "task of three classes; the red triangle joins the classes, the shaded cap is the region that the "
        "theorem predicts. Panels (e) and (f): three tasks, one after the other; past features stay put."
    )
    page = sphere_page(spheres, title="Regions on the sphere: SupCon and R2SCL", introduction=introduction)
    return write_atomic(out / "toy.html", page)


def _print(result: ToyResult, console: Console) -> None:
    """Two tables: shapes against the theorem, and the overlap of tasks; then the files."""
    table = Table(
        title="Final features against the theorem", title_justify="left", box=box.SIMPLE_HEAD, padding=0
    )
    table.add_column("panel", no_wrap=True)
    for name in ("k", "radius", "theory", "center", "theory", "off by", "≤ 2%"):
        table.add_column(name, justify="right", no_wrap=True)
    for panel in result.panels:
        table.add_row(
            f"({panel.letter}) {panel.name}",
            "none" if panel.k is None else f"{panel.k:.4g}",
            f"{panel.measured.radius:.4f}",
            f"{panel.theory.radius:.4f}",
            f"{panel.measured.center_norm:.4f}",
            f"{panel.theory.center_norm:.4f}",
            f"{100 * panel.deviation:.2f}%",
            "yes" if panel.agrees else "[bold red]no[/]",
        )
    console.print(table)
    table = Table(
        title="Overlap of three tasks (0 apart, 1 the same) and angle between them",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("panel", no_wrap=True)
    for name in ("this run", "mean turn", "worst turn", "closest", "assured"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, overlap in zip(("(e) SupCon", "(f) R2SCL"), result.overlap.values(), strict=True):
        table.add_row(
            name,
            f"{overlap.run:.4f}",
            f"{overlap.mean:.4f}",
            f"{overlap.worst:.4f}",
            f"{overlap.closest_degrees:.1f}°",
            f"{overlap.guaranteed_degrees:.1f}°",
        )
    console.print(table)
    console.print(
        f"{result.seconds:.0f} s; wrote " + ", ".join(str(path) for path in result.files), soft_wrap=True
    )
