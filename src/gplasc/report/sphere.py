"""Features on the unit sphere in three dimensions: a still picture for print, a sphere to turn in the page.

The still picture does its own orthographic projection: hidden lines, faded far points and exact outlines of
the regions need to know what lies in front, which matplotlib's 3-D axes do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gplasc._io.text import html_text, printable
from gplasc.report import style
from gplasc.report.render import render, script_json
from gplasc.report.section import Section

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

    def __post_init__(self) -> None:
        if not 0.0 < self.half_angle < np.pi / 2:
            raise ValueError(f"half_angle is {self.half_angle:.4g}; a cap needs an angle between 0 and pi/2")


@dataclass(frozen=True)
class TaskFeatures:
    """What one task left on the sphere.

    Args:
        name: Name of the task.
        history: (S, N, 3) unit rows, from the random start to the final features.
        labels: (N,) classes.
        color: Color of the task.
        cap: Its region, if there is one.
        mark: Text beside each feature in the page.
    """

    name: str
    history: Array
    labels: NDArray[np.int64]
    color: str
    cap: Cap | None = None
    mark: str = ""

    @property
    def final(self) -> Array:
        """The features after the last step, (N, 3)."""
        return np.asarray(self.history[-1])

    @property
    def vertices(self) -> Array:
        """The mean feature of each class, (number of classes, 3)."""
        return _class_means(self.final, self.labels)


@dataclass(frozen=True)
class SpherePanel:
    """One sphere: a still picture for print, and a sphere to turn in the page, with a slider if anything moved.

    Args:
        title: Heading.
        caption: What the sphere shows, in words.
        tasks: What is on it.
        view: (3,) direction from which it is seen.
        pole: (3,) direction up.
        structure: Color of the polygon through the class means; None takes each task's own color.
        name: Stem of the file when the picture is written to disk.
    """

    title: str
    caption: str
    tasks: tuple[TaskFeatures, ...]
    view: Array
    pole: Array
    structure: str | None = None
    name: str = ""

    def to_html(self) -> str:
        """Return a figure element with a canvas, which sphere.js draws."""
        data = {
            "view": self.view.tolist(),
            "pole": self.pole.tolist(),
            "structure": self.structure and style.in_page(self.structure),
            "tasks": [
                {
                    "color": style.in_page(task.color),
                    "labels": task.labels.tolist(),
                    "mark": printable(task.mark),
                    "cap": None
                    if task.cap is None
                    else [
                        *(task.cap.axis / np.linalg.norm(task.cap.axis)).tolist(),
                        float(task.cap.half_angle),
                    ],
                    # Thousandths of the radius are finer than a screen.
                    "history": np.rint(1000 * task.history)
                    .astype(int)
                    .reshape(len(task.history), -1)
                    .tolist(),
                }
                for task in self.tasks
            ],
        }
        title, words = html_text(self.title), html_text(self.caption)
        moments = sum(len(task.history) for task in self.tasks)
        film = ""
        if moments > len(self.tasks):  # something moves
            names = "".join(
                f'<li><i style="background:{style.in_page(task.color)}"></i>{html_text(task.name)}</li>'
                for task in self.tasks
            )
            film = (
                '<div class="film"><button type="button" class="play" aria-label="Play">▶</button>'
                f'<input type="range" min="0" max="{moments - 1}" value="{moments - 1}" aria-label="Step"></div>'
                f'<ul class="legend">{names}</ul>'
            )
        return (
            f'<figure class="card sphere"><p class="title">{title}</p><canvas tabindex="0" role="img" '
            f'aria-label="{title}. Turn it with the arrow keys."></canvas>{film}'
            f'<script type="application/json">{script_json(data)}</script>'
            f"<figcaption>{words.replace(chr(10), '<br>')}</figcaption></figure>\n"
        )

    def write(self, stem: Path) -> list[Path]:
        """Write the still picture as SVG and PDF and return the paths."""
        with style.paper_style():
            return style.save_figure(
                sphere_figure([replace(self, caption="")], columns=1), stem, (".svg", ".pdf")
            )


def _class_means(points: Array, labels: NDArray[np.int64]) -> Array:
    """Mean of the rows of each class, (number of classes, 3)."""
    return np.stack([points[labels == label].mean(axis=0) for label in np.unique(labels)])


def camera(view: Array, pole: Array) -> Array:
    """Rows right, up and toward the viewer, (3, 3) orthonormal; `pole` must not be parallel to `view`."""
    toward = view / np.linalg.norm(view)
    up = pole - (pole @ toward) * toward
    length = float(np.linalg.norm(up))
    if length < 1e-9:
        raise ValueError("the pole is parallel to the view; turn one of them")
    up = up / length
    return np.stack([np.cross(up, toward), up, toward])


def cap_boundary(cap: Cap, count: int = 181) -> Array:
    """Points (count, 3) on the circle that bounds the cap, the last equal to the first."""
    axis = cap.axis / np.linalg.norm(cap.axis)
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first = first / np.linalg.norm(first)
    second = np.cross(axis, first)
    turn = np.linspace(0.0, 2 * np.pi, count)[:, None]
    ring = np.cos(turn) * first + np.sin(turn) * second
    return np.asarray(np.cos(cap.half_angle) * axis + np.sin(cap.half_angle) * ring)


def cap_outline(cap: Cap, frame: Array, *, front: bool, count: int = 181) -> Array:
    """Outline (M, 2) on the paper of the part of the cap that faces the viewer (or, front=False, does not).

    frame: rows of `camera`. M = 0 where nothing of the cap lies on that side. The part is bounded by an arc
    of the cap's circle and, where the cap reaches over the edge of the visible disk, by an arc of that edge.
    """
    sign = 1.0 if front else -1.0
    axis = frame @ (cap.axis / np.linalg.norm(cap.axis))
    flat = float(np.hypot(axis[0], axis[1]))
    depth, cosine = sign * float(axis[2]), float(np.cos(cap.half_angle))
    if flat <= cosine:  # no edge point is inside: the circle does not cross the edge of the disk
        return cap_boundary(cap, count) @ frame[:2].T if depth > 0 else np.empty((0, 2))
    # In the plane's own frame: `out` points from the middle of the disk to the cap's axis, `side` across.
    out = axis[:2] / flat
    side = np.array([-out[1], out[0]])
    reach = float(np.arccos(cosine / flat))  # the edge is inside the cap from -reach to +reach
    edge_angle = np.linspace(-reach, reach, count)[:, None]
    edge = np.cos(edge_angle) * out + np.sin(edge_angle) * side
    # The circle is axis*cos(a) + sin(a)*(cos(t)*lift + sin(t)*side), with lift toward the viewer's side:
    # its depth is depth*cos(a) + sin(a)*cos(t)*flat, which is positive for |t| < limit.
    limit = float(np.arccos(np.clip(-depth * cosine / (np.sin(cap.half_angle) * flat), -1.0, 1.0)))
    turn = np.linspace(limit, -limit, count)[:, None]
    lift = -depth * out
    ring = cosine * flat * out + np.sin(cap.half_angle) * (np.cos(turn) * lift + np.sin(turn) * side)
    return np.concatenate([edge, ring])


def _graticule(pole: Array, step: int = 30, count: int = 181) -> list[Array]:
    """Meridians and parallels every `step` degrees around `pole`, each (count, 3)."""
    rows = camera(pole, np.eye(3)[np.argmin(np.abs(pole))])
    east, north, up = rows
    lines = []
    along = np.linspace(0.0, 2 * np.pi, count)[:, None]
    for longitude in np.radians(np.arange(0, 180, step)):
        across = np.cos(longitude) * east + np.sin(longitude) * north
        lines.append(np.cos(along) * across + np.sin(along) * up)
    for latitude in np.radians(np.arange(-90 + step, 90, step)):
        ring = np.cos(along) * east + np.sin(along) * north
        lines.append(np.cos(latitude) * ring + np.sin(latitude) * up)
    return lines


def _side(points: Array, frame: Array, front: bool) -> Array:
    """Points (M, 3) on the paper, (M, 2), with NaN in the place of those that are not on this side of the ball."""
    seen = points @ frame.T
    return np.where((seen[:, 2:] >= 0) == front, seen[:, :2], np.nan)


def _shading(size: int = 360) -> Array:
    """Gray levels (size, size) of a white ball lit from the upper left; the caller clips it to the disk."""
    x, y = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    z = np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))
    light = np.array([-0.42, 0.52, 0.74])
    lit = np.clip(x * light[0] + y * light[1] + z * light[2], -0.35, 1)
    return np.asarray(0.885 + 0.115 * (lit + 0.35) / 1.35, dtype=np.float64)


def _draw_sphere(axes: Axes, panel: SpherePanel) -> None:
    """Draw the panel into matplotlib axes: ball, regions, random starts, class structure, final features.

    What lies on the far side is drawn first and fainter.
    """
    from matplotlib.patches import Circle, Polygon

    frame = camera(panel.view, panel.pole)
    axes.set_axis_off()
    axes.grid(False)
    axes.set_aspect("equal")
    disk = Circle((0, 0), 1.0, facecolor="none", edgecolor="none", zorder=0)
    axes.add_patch(disk)
    ball = axes.imshow(
        _shading(), cmap="gray", vmin=0, vmax=1, origin="lower", extent=(-1, 1, -1, 1), interpolation="none"
    )
    ball.set_clip_path(disk)
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.42, 1.06)
    for front, order in ((False, 1.0), (True, 4.0)):
        for line in _graticule(panel.pole):
            axes.plot(
                *_side(line, frame, front).T,
                color="#8A94A0",
                linewidth=0.33,
                alpha=0.6 if front else 0.22,
                zorder=order,
            )
        for index, task in enumerate(panel.tasks):
            color, paper = task.color, style.PAPER
            if task.cap is not None:
                outline = cap_outline(task.cap, frame, front=front)
                if len(outline):
                    axes.add_patch(
                        Polygon(outline, color=color, alpha=0.24 if front else 0.1, lw=0, zorder=order + 0.5)
                    )
                edge = (
                    {"linewidth": 0.9}
                    if front
                    else {"linewidth": 0.6, "alpha": 0.35, "linestyle": (0, (3, 2))}
                )
                axes.plot(
                    *_side(cap_boundary(task.cap), frame, front).T, color=color, zorder=order + 1, **edge
                )
            x, y = _side(task.history[0], frame, front).T
            axes.scatter(
                x, y, s=1, color=color, alpha=0.45 if front else 0.1, linewidths=0, zorder=order + 1.2
            )
            # Collapsed classes are hundreds of equal marks, of which one is enough.
            x, y = _side(np.unique(task.final.round(3), axis=0), frame, front).T
            axes.scatter(
                x,
                y,
                s=26 if front else 18,
                marker=style.marker(index),
                facecolor=color if front else paper,
                edgecolor=paper if front else color,
                linewidths=0.7,
                zorder=order + (4 if front else 1.5),
            )
    for task in panel.tasks:
        ink, corners = panel.structure or task.color, (task.vertices @ frame.T)[:, :2]
        shape = Polygon(
            corners, facecolor=ink + "1A", edgecolor=ink, linewidth=1.1, joinstyle="round", zorder=6.5
        )
        axes.add_patch(shape)
    axes.add_patch(Circle((0, 0), 1.0, facecolor="none", edgecolor="#5C6670", linewidth=0.7, zorder=7))
    axes.set_title(panel.title, pad=3)
    axes.text(0, -1.1, panel.caption, ha="center", va="top", fontsize=6.8, color="#4A525B", linespacing=1.35)


def sphere_figure(panels: Sequence[SpherePanel], *, columns: int = 3) -> Figure:
    """A matplotlib figure with one sphere per panel, `columns` in a row; call it in `style.paper_style`."""
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.75 * rows + 0.3))
    figure.subplots_adjust(
        left=0.01, right=0.99, bottom=0.3 / (2.75 * rows + 0.3), top=0.96, wspace=0.04, hspace=0.1
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw_sphere(axes, panel)
    figure.legend(
        handles=_legend(panels),
        loc="lower center",
        ncols=2 * columns + 1,
        handletextpad=0.3,
        columnspacing=1.1,
    )
    return figure


def _legend(panels: Sequence[SpherePanel]) -> list[Artist]:
    """What the marks mean: each task's final features, their structure, the predicted region, the start."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    most = max(panels, key=lambda panel: len(panel.tasks)).tasks
    handles: list[Artist] = []
    for index, task in enumerate(most):
        mark = Line2D([], [], color=task.color, marker=style.marker(index), markersize=5, linestyle="none")
        mark.set_label(task.name)
        handles.append(mark)
    trained = len(most[0].history) > 1
    if trained:
        structure = next((panel.structure for panel in panels if panel.structure), style.INK)
        handles.append(Line2D([], [], color=structure, linewidth=1.1, label="class structure"))
    region = "region, theory" if trained else "region"
    cap = Patch(facecolor=most[0].color + "3D", edgecolor=most[0].color, linewidth=0.9, label=region)
    start = Line2D(
        [], [], color=most[0].color, marker=".", markersize=2.5, linestyle="none", label="random start"
    )
    far = Line2D([], [], color=most[0].color, marker="o", markersize=4.2, linestyle="none", label="far side")
    far.set_markerfacecolor("white")
    return [*handles, far, cap, *([start] if trained else [])]


def sphere_page(panels: Sequence[SpherePanel], *, title: str, introduction: str) -> str:
    """Return an HTML page with a sphere per panel; it carries all it needs and opens without a network.

    Raises:
        UserError: If jinja2 is missing.
    """
    return render(title, [introduction], [Section("Spheres", tuple(panels))])
