"""Features on the unit sphere in three dimensions: a still picture for print, a sphere to turn in the page.

The still picture does its own orthographic projection: hidden lines, faded far points and exact outlines of
the regions need to know what lies in front, which matplotlib's 3-D axes do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gplasc._io.text import printable
from gplasc.report import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cap:
    """A region of the sphere: every direction at most `half_angle` radians (below pi/2) from `axis` (3,)."""

    axis: Array
    half_angle: float


@dataclass(frozen=True)
class TaskFeatures:
    """What one task left on the sphere."""

    name: str
    history: Array  # (S, N, 3) unit rows, from the random start to the final features
    labels: NDArray[np.int64]  # (N,)
    color: str
    cap: Cap | None = None
    marks: tuple[str, ...] = ()  # texts at the means of the classes, in the order of their labels

    @property
    def final(self) -> Array:
        """The features after the last step, (N, 3)."""
        return np.asarray(self.history[-1])

    @property
    def vertices(self) -> Array:
        """The mean feature of each class, (number of classes, 3)."""
        return np.stack([self.final[self.labels == label].mean(axis=0) for label in np.unique(self.labels)])

    def to_plain(self) -> dict[str, Any]:
        """Return what sphere.js draws."""
        cap = self.cap and [*(self.cap.axis / np.linalg.norm(self.cap.axis)).tolist(), self.cap.half_angle]
        # Thousandths of the radius are finer than a screen.
        history = np.rint(1000 * self.history).astype(int).reshape(len(self.history), -1)
        return {
            "name": printable(self.name),
            "color": style.in_page(self.color),
            "labels": np.unique(self.labels, return_inverse=True)[1].tolist(),
            "marks": list(map(printable, self.marks)),
            "cap": cap,
            "history": history.tolist(),
        }


@dataclass(frozen=True)
class Sphere:
    """One sphere: a still picture for print, and a sphere to turn in the page, with a slider if anything moved."""

    title: str
    caption: str  # what the sphere shows, in words
    tasks: tuple[TaskFeatures, ...]
    view: Array  # (3,) direction from which it is seen
    pole: Array  # (3,) direction up
    structure: str | None = None  # color of the polygon through the class means; None: each task's own
    name: str = ""  # stem of the file when the picture is written to disk

    def swatches(self) -> dict[str, tuple[str, str]]:
        """Return the entries of the legend; none where marks say enough."""
        named = any(len(task.labels) > 1 for task in self.tasks)
        return {task.name: ("●", task.color) for task in self.tasks if named}

    @property
    def last_step(self) -> int:
        """The number of the last picture of the film; 0 if nothing moved."""
        moves = any(len(task.history) > 1 for task in self.tasks)
        return sum(len(task.history) for task in self.tasks) - 1 if moves else 0

    def to_plain(self) -> dict[str, Any]:
        """Return what sphere.js draws."""
        return {
            "view": self.view.tolist(),
            "pole": self.pole.tolist(),
            "structure": self.structure and style.in_page(self.structure),
            "tasks": [task.to_plain() for task in self.tasks],
        }

    def write(self, stem: Path) -> list[Path]:
        """Write the still picture as SVG and PDF and return the paths."""
        with style.paper_style():
            figure = sphere_figure([replace(self, caption="")], columns=1)
            return style.save_figure(figure, stem, (".svg", ".pdf"))


def _camera(view: Array, pole: Array) -> Array:
    """Rows right, up and toward the viewer, (3, 3) orthonormal; `pole` must not be parallel to `view`."""
    toward = view / np.linalg.norm(view)
    up = pole - (pole @ toward) * toward
    up = up / np.linalg.norm(up)
    return np.stack([np.cross(up, toward), up, toward])


def _circle(axis: Array, angle: float, count: int = 181) -> Array:
    """Points (count, 3) of the sphere at an angle from the axis (3,), the last equal to the first."""
    axis = axis / np.linalg.norm(axis)
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first = first / np.linalg.norm(first)
    turn = np.linspace(0.0, 2 * np.pi, count)[:, None]
    ring = np.cos(turn) * first + np.sin(turn) * np.cross(axis, first)
    return np.asarray(np.cos(angle) * axis + np.sin(angle) * ring)


def _ball(size: int) -> tuple[Array, Array, Array]:
    """Coordinates (size, size) of the points of the ball that face the viewer; outside the disk the last is 0."""
    x, y = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    return x, y, np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))


def _cap_cosine(cap: Cap, frame: Array, points: tuple[Array, Array, Array], *, front: bool) -> Array:
    """Cosine to the axis of the cap of points as `_ball` returns them, or of those behind them (front=False)."""
    axis = frame @ (cap.axis / np.linalg.norm(cap.axis))
    x, y, z = points
    return np.asarray(x * axis[0] + y * axis[1] + (z if front else -z) * axis[2])


def _graticule(pole: Array) -> list[Array]:
    """Meridians and parallels every 30 degrees around the pole, each (181, 3)."""
    equator = _circle(pole, np.pi / 2)
    meridians = [_circle(equator[15 * step], np.pi / 2) for step in range(6)]
    return [*meridians, *(_circle(pole, angle) for angle in np.radians(np.arange(30, 180, 30)))]


def _side(points: Array, frame: Array, front: bool) -> Array:
    """Points (M, 3) on the paper, (M, 2), with NaN in the place of those that are not on this side of the ball."""
    seen = points @ frame.T
    return np.where((seen[:, 2:] >= 0) == front, seen[:, :2], np.nan)


def _shading() -> Array:
    """Gray levels of a white ball lit from the upper left; the caller clips them to the disk."""
    x, y, z = _ball(360)
    lit = np.clip(-0.42 * x + 0.52 * y + 0.74 * z, -0.35, 1)
    return np.asarray(0.885 + 0.115 * (lit + 0.35) / 1.35)


def _draw_sphere(axes: Axes, sphere: Sphere) -> None:
    """Draw ball, regions, random starts, class structure and final features; first, and fainter, the far side."""
    from matplotlib.patches import Circle, Polygon

    frame, ball = _camera(sphere.view, sphere.pole), _ball(201)
    axes.set_aspect("equal")
    disk = Circle((0, 0), 1.0, facecolor="none", edgecolor="none", zorder=0)
    axes.add_patch(disk)
    gray: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "none"}
    axes.imshow(_shading(), origin="lower", extent=(-1, 1, -1, 1), **gray).set_clip_path(disk)
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.42, 1.06)
    for front, order in ((False, 1.0), (True, 4.0)):
        for line in _graticule(sphere.pole):
            x, y = _side(line, frame, front).T
            axes.plot(x, y, color="#8A94A0", linewidth=0.33, alpha=0.6 if front else 0.22, zorder=order)
        for index, task in enumerate(sphere.tasks):
            color = task.color
            if task.cap is not None:
                cosine = _cap_cosine(task.cap, frame, ball, front=front)
                look: dict[str, Any] = {"colors": [color], "alpha": 0.24 if front else 0.1}
                cap = axes.contourf(
                    *ball[:2], cosine, [np.cos(task.cap.half_angle), 2], zorder=order + 0.5, **look
                )
                cap.set_clip_path(disk)
                x, y = _side(_circle(task.cap.axis, task.cap.half_angle), frame, front).T
                far: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.35, "linestyle": (0, (3, 2))}
                axes.plot(x, y, color=color, zorder=order + 1, **({"linewidth": 0.9} if front else far))
            x, y = _side(task.history[0], frame, front).T
            alpha = 0.45 if front else 0.1
            axes.scatter(x, y, s=1, color=color, alpha=alpha, linewidths=0, zorder=order + 1.2)
            # Collapsed classes are hundreds of equal marks, of which one is enough.
            x, y = _side(np.unique(task.final.round(3), axis=0), frame, front).T
            inside, outside = (color, style.PAPER) if front else (style.PAPER, color)
            axes.scatter(
                x, y, s=26 if front else 18, marker=style.marker(index), facecolor=inside, edgecolor=outside,
                linewidths=0.7, zorder=order + (4 if front else 1.5),
            )  # fmt: skip
    for task in sphere.tasks:
        ink, corners = sphere.structure or task.color, (task.vertices @ frame.T)[:, :2]
        look = {"facecolor": ink + "1A", "edgecolor": ink, "linewidth": 1.1, "joinstyle": "round"}
        axes.add_patch(Polygon(corners, zorder=6.5, **look))
    axes.add_patch(Circle((0, 0), 1.0, facecolor="none", edgecolor="#5C6670", linewidth=0.7, zorder=7))
    axes.set_title(sphere.title, pad=3)
    axes.text(0, -1.1, sphere.caption, ha="center", va="top", fontsize=6.8, color="#4A525B", linespacing=1.35)


def sphere_figure(spheres: Sequence[Sphere], *, columns: int = 3) -> Figure:
    """A matplotlib figure of spheres, `columns` in a row; call it in `style.paper_style`."""
    from matplotlib.figure import Figure

    rows = -(-len(spheres) // columns)
    height = 2.75 * rows + 0.3
    figure = Figure(figsize=(2.3 * columns, height))
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.3 / height, top=0.96, wspace=0.04, hspace=0.1)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, sphere in zip(grid.flat, spheres, strict=False):
        _draw_sphere(axes, sphere)
    look: dict[str, Any] = {"handletextpad": 0.3, "columnspacing": 1.1}
    figure.legend(handles=_legend(spheres), loc="lower center", ncols=2 * columns + 1, **look)
    return figure


def _legend(spheres: Sequence[Sphere]) -> list[Artist]:
    """What the marks mean: each task's final features, their structure, the predicted region, the start."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    most = max(spheres, key=lambda sphere: len(sphere.tasks)).tasks
    color, trained = most[0].color, len(most[0].history) > 1
    handles: list[Artist] = [
        Line2D([], [], color=t.color, marker=style.marker(i), markersize=5, linestyle="none", label=t.name)
        for i, t in enumerate(most)
    ]
    if trained:
        structure = next((sphere.structure for sphere in spheres if sphere.structure), style.INK)
        handles.append(Line2D([], [], color=structure, linewidth=1.1, label="class structure"))
    dots: dict[str, Any] = {"color": color, "linestyle": "none"}
    hollow: dict[str, Any] = {"marker": "o", "markersize": 4.2, "markerfacecolor": "white"}
    handles.append(Line2D([], [], label="far side", **dots, **hollow))
    if any(task.cap for sphere in spheres for task in sphere.tasks):
        region = "region, theory" if trained else "region"
        handles.append(Patch(facecolor=color + "3D", edgecolor=color, linewidth=0.9, label=region))
    if trained:
        handles.append(Line2D([], [], marker=".", markersize=2.5, label="random start", **dots))
    return handles
