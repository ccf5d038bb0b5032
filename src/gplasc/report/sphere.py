"""Features on the unit sphere in three dimensions: a still picture for print, a page with spheres to turn.

The still picture does its own orthographic projection: hidden lines, faded far points and exact outlines of
the regions need to know what lies in front, which matplotlib's 3-D axes do not.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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

    def __post_init__(self) -> None:
        if not 0.0 < self.half_angle < np.pi / 2:
            raise ValueError(f"half_angle is {self.half_angle:.4g}; a cap needs an angle between 0 and pi/2")


@dataclass(frozen=True)
class TaskFeatures:
    """What one task left on the sphere.

    history: (S, N, 3) unit rows, from the random start to the final features; labels: (N,) classes.
    """

    name: str
    history: Array
    labels: NDArray[np.int64]
    color: str
    cap: Cap | None = None

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
    """One sphere: its tasks, the direction `view` (3,) it is seen from, and `pole` (3,), the direction up.

    structure: color of the polygon through the class means; None takes each task's own color.
    """

    title: str
    caption: str
    tasks: tuple[TaskFeatures, ...]
    view: Array
    pole: Array
    structure: str | None = None


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


def _split(points: Array, frame: Array) -> tuple[Array, Array]:
    """A line (M, 3) on the paper as its visible and its hidden part, (M, 2) each, NaN in the other part."""
    seen = points @ frame.T
    paper, depth = seen[:, :2], seen[:, 2:]
    return np.where(depth >= 0, paper, np.nan), np.where(depth <= 0, paper, np.nan)


def _shading(size: int = 360) -> Array:
    """Gray levels (size, size) of a white ball lit from the upper left; the caller clips it to the disk."""
    x, y = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    z = np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))
    light = np.array([-0.42, 0.52, 0.74])
    lit = np.clip(x * light[0] + y * light[1] + z * light[2], -0.35, 1)
    return np.asarray(0.885 + 0.115 * (lit + 0.35) / 1.35, dtype=np.float64)


def draw_sphere(axes: Axes, panel: SpherePanel) -> None:
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
        _shading(),
        cmap="gray",
        vmin=0,
        vmax=1,
        origin="lower",
        extent=(-1, 1, -1, 1),
        interpolation="none",
    )
    ball.set_clip_path(disk)
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.42, 1.06)
    for line in _graticule(panel.pole):
        visible, hidden = _split(line, frame)
        axes.plot(*hidden.T, color="#8A94A0", linewidth=0.3, alpha=0.22, zorder=1)
        axes.plot(*visible.T, color="#8A94A0", linewidth=0.35, alpha=0.6, zorder=4)
    for index, task in enumerate(panel.tasks):
        if task.cap is not None:
            for front, strength in ((False, 0.10), (True, 0.24)):
                outline = cap_outline(task.cap, frame, front=front)
                if len(outline):
                    shape = Polygon(outline, facecolor=task.color, alpha=strength, linewidth=0)
                    shape.set_zorder(5 if front else 1.5)
                    axes.add_patch(shape)
            visible, hidden = _split(cap_boundary(task.cap), frame)
            axes.plot(*hidden.T, color=task.color, linewidth=0.6, alpha=0.35, linestyle=(0, (3, 2)), zorder=2)
            axes.plot(*visible.T, color=task.color, linewidth=0.9, zorder=6)
        start = task.history[0] @ frame.T
        for front in (False, True):
            rows = start[(start[:, 2] >= 0) == front]
            axes.scatter(
                rows[:, 0],
                rows[:, 1],
                s=1.0,
                color=task.color,
                alpha=0.45 if front else 0.10,
                linewidths=0,
                zorder=6.2 if front else 1.7,
            )
        corners = task.vertices @ frame.T
        ink = panel.structure or task.color
        axes.add_patch(Polygon(corners[:, :2], facecolor=ink, alpha=0.10, linewidth=0, zorder=3))
        axes.add_patch(
            Polygon(
                corners[:, :2],
                facecolor="none",
                edgecolor=ink,
                linewidth=1.1,
                alpha=0.9,
                joinstyle="round",
                zorder=6.5,
            )
        )
        # Collapsed classes are hundreds of equal marks, of which one is enough.
        seen = np.unique((task.final @ frame.T).round(3), axis=0)
        for front in (False, True):
            rows = seen[(seen[:, 2] >= 0) == front]
            axes.scatter(
                rows[:, 0],
                rows[:, 1],
                s=26 if front else 18,
                marker=style.marker(index),
                facecolor=task.color if front else "#FFFFFF",
                edgecolor="#FFFFFF" if front else task.color,
                alpha=None if front else 0.8,
                linewidths=0.6 if front else 0.8,
                zorder=8 if front else 2.5,
            )
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
        draw_sphere(axes, panel)
    figure.legend(handles=_legend(panels), loc="lower center", ncols=7, handletextpad=0.3, columnspacing=1.1)
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
    structure = next((panel.structure for panel in panels if panel.structure), style.INK)
    handles.append(Line2D([], [], color=structure, linewidth=1.1, label="class structure"))
    cap = Patch(
        facecolor=most[0].color + "3D", edgecolor=most[0].color, linewidth=0.9, label="region, theory"
    )
    start = Line2D(
        [], [], color=most[0].color, marker=".", markersize=2.5, linestyle="none", label="random start"
    )
    far = Line2D([], [], color=most[0].color, marker="o", markersize=4.2, linestyle="none", label="far side")
    far.set_markerfacecolor("white")
    return [*handles, far, cap, start]


def _moments(panel: SpherePanel) -> list[tuple[int, int]]:
    """The film of a panel as (task, row of its history): tasks come one after the other, none comes back."""
    return [(index, row) for index, task in enumerate(panel.tasks) for row in range(len(task.history))]


def _points_at(panel: SpherePanel, index: int, moment: tuple[int, int]) -> Array:
    """Features (N, 3) of task `index` at a moment of the film; (0, 3) before the task has begun."""
    current, row = moment
    task = panel.tasks[index]
    if index > current:
        return np.empty((0, 3))
    return np.asarray(task.history[row if index == current else -1])


def _corners_at(panel: SpherePanel, index: int, moment: tuple[int, int]) -> Array:
    """Closed polygon (classes + 1, 3) through the class means of task `index`; (0, 3) before it has begun."""
    points, labels = _points_at(panel, index, moment), panel.tasks[index].labels
    if not len(points):
        return points
    means = _class_means(points, labels)
    return np.concatenate([means, means[:1]])


def _lines(lines: Sequence[Array]) -> Array:
    """Several lines as one (M, 3) array with a gap (NaN) after each."""
    return np.concatenate([np.concatenate([line, np.full((1, 3), np.nan)]) for line in lines])


def _coordinates(points: Array) -> dict[str, Any]:
    """x, y, z as plotly takes them; half the digits of float64 halve the page."""
    x, y, z = points.astype(np.float32).T
    return {"x": x, "y": y, "z": z}


def _mesh(grid: Array) -> dict[str, Any]:
    """Points (rows, columns, 3) and the triangles between them as plotly takes them.

    A mesh, because plotly refines every surface to many times the points given, which takes seconds for each.
    """
    rows, columns = grid.shape[:2]
    corner = np.arange(rows * columns).reshape(rows, columns)[:-1, :-1].ravel()
    first = np.stack([corner, corner + 1, corner + columns])
    second = np.stack([corner + 1, corner + columns + 1, corner + columns])
    triangles = np.concatenate([first, second], axis=1).astype(np.uint16)  # half the page of int32
    return _coordinates(grid.reshape(-1, 3)) | dict(zip("ijk", triangles, strict=True))


def _cap_grid(cap: Cap, rings: int = 6, count: int = 37) -> Array:
    """Points (rings, count, 3) on the cap."""
    angles = np.linspace(1e-3, cap.half_angle, rings)
    return np.stack([cap_boundary(Cap(cap.axis, angle), count) for angle in angles])


def _ball_grid(size: float) -> Array:
    """Points (25, 49, 3) on a ball."""
    half, whole = np.meshgrid(np.linspace(0, np.pi, 25), np.linspace(0, 2 * np.pi, 49), indexing="ij")
    return size * np.stack(
        [np.cos(whole) * np.sin(half), np.sin(whole) * np.sin(half), np.cos(half)], axis=-1
    )


def sphere_scene(panel: SpherePanel) -> Any:
    """A plotly figure of the panel: a sphere to turn, with a slider through the optimization if there is one.

    Raises UserError when plotly is missing.
    """
    style.require("plotly")
    import plotly.graph_objects as go

    plain = {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0, "fresnel": 0.0}
    traces: list[Any] = [
        go.Mesh3d(**_mesh(_ball_grid(0.985)), color="#EEF1F4", opacity=0.5, hoverinfo="skip", lighting=plain),
        go.Scatter3d(
            **_coordinates(_lines(_graticule(panel.pole, count=91))),
            mode="lines",
            line={"color": "#9AA3AD", "width": 1.5},
            hoverinfo="skip",
        ),
    ]
    for task in panel.tasks:
        if task.cap is None:
            continue
        traces.append(
            go.Mesh3d(
                **_mesh(_cap_grid(task.cap)), color=task.color, opacity=0.16, hoverinfo="skip", lighting=plain
            )
        )
        traces.append(
            go.Scatter3d(
                **_coordinates(1.004 * cap_boundary(task.cap, 91)),
                mode="lines",
                line={"color": task.color, "width": 4},
                hoverinfo="skip",
            )
        )
    moments = _moments(panel)
    moving: list[int] = []
    symbols = ("circle", "square", "diamond", "cross")
    for index, task in enumerate(panel.tasks):
        moving += [len(traces), len(traces) + 1]
        traces.append(
            go.Scatter3d(
                **_coordinates(1.01 * _points_at(panel, index, moments[-1])),
                mode="markers",
                marker={"size": 4.5, "color": task.color, "symbol": symbols[index % len(symbols)]},
                text=[f", class {label}" for label in task.labels] if len(task.labels) > 1 else [""],
                hovertemplate=f"{html.escape(task.name)}%{{text}}<extra></extra>",
            )
        )
        traces.append(
            go.Scatter3d(
                **_coordinates(_corners_at(panel, index, moments[-1])),
                mode="lines",
                line={"color": panel.structure or task.color, "width": 6},
                hoverinfo="skip",
            )
        )
    frames = []
    still = all(len(task.history) == 1 for task in panel.tasks)  # nothing moves: no film
    for number, moment in enumerate(() if still else moments):
        data = []
        for index in range(len(panel.tasks)):
            data.append(go.Scatter3d(**_coordinates(1.01 * _points_at(panel, index, moment))))
            data.append(go.Scatter3d(**_coordinates(_corners_at(panel, index, moment))))
        frames.append(go.Frame(data=data, traces=moving, name=str(number)))
    jump = {"mode": "immediate", "transition": {"duration": 0}, "frame": {"duration": 0, "redraw": True}}
    play = {"fromcurrent": False, "transition": {"duration": 0}, "frame": {"duration": 120, "redraw": True}}
    several = len(panel.tasks) > 1
    steps = [
        {
            "args": [[str(number)], jump],
            "label": panel.tasks[index].name if several else ("start" if row == 0 else ""),
            "method": "animate",
        }
        for number, (index, row) in enumerate(moments)
    ]
    eye = 1.5 * panel.view / np.linalg.norm(panel.view)
    hidden = {"visible": False, "range": [-1.08, 1.08]}
    layout = go.Layout(
        scene={
            "xaxis": hidden,
            "yaxis": hidden,
            "zaxis": hidden,
            # The orthographic camera ignores its distance: the box itself decides how much the ball fills.
            "aspectmode": "manual",
            "aspectratio": {"x": 1.75, "y": 1.75, "z": 1.75},
            "domain": {"x": [0, 1], "y": [0 if still else 0.11, 1]},
            "camera": {
                "eye": dict(zip("xyz", map(float, eye), strict=True)),
                "up": dict(zip("xyz", map(float, panel.pole), strict=True)),
                "projection": {"type": "orthographic"},
            },
            "dragmode": "orbit",
        },
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        height=430,
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)",
        updatemenus=[]
        if still
        else [
            {
                "type": "buttons",
                "showactive": False,
                "x": 0.02,
                "y": 0.0,
                "xanchor": "left",
                "yanchor": "bottom",
                "pad": {"b": 8, "t": 0},
                "buttons": [{"label": "&#9654;", "method": "animate", "args": [None, play]}],
            }
        ],
        sliders=[]
        if still
        else [
            {
                "active": len(steps) - 1,
                "steps": steps,
                "x": 0.16,
                "len": 0.8,
                "y": 0.0,
                "yanchor": "bottom",
                "pad": {"b": 6, "t": 0},
                "currentvalue": {"visible": False},
                "ticklen": 0,
                "minorticklen": 0,
                "font": {"size": 1, "color": "rgba(0,0,0,0)"},
            }
        ],
    )
    return go.Figure(data=traces, layout=layout, frames=frames)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: {ink}; }}
body {{ margin: 0 auto; max-width: 1320px; padding: 1.5rem; }}
h1 {{ font-size: 1.5rem; margin: 0 0 .5rem; }}
p {{ max-width: 62rem; margin: .4rem 0 1rem; }}
.spheres {{ display: grid; gap: 1rem; }}
.spheres {{ grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); }}
figure {{ margin: 0; border: 1px solid #e3e6ea; border-radius: 8px; overflow: hidden; min-width: 0; }}
figcaption {{ padding: .6rem .9rem 0; }}
figcaption small {{ color: #5c6670; display: block; min-height: 3em; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{introduction}</p>
<div class="spheres">
{spheres}
</div>
</body>
</html>
"""


def sphere_page(panels: Sequence[SpherePanel], *, title: str, introduction: str) -> str:
    """One HTML page with a sphere per panel; it carries its own plotly and opens without a network.

    Raises UserError when plotly is missing.
    """
    spheres = []
    for number, panel in enumerate(panels):
        scene = sphere_scene(panel).to_html(
            full_html=False,
            include_plotlyjs=number == 0,
            auto_play=False,
            div_id=f"sphere-{number}",
            config={"displaylogo": False, "responsive": True, "displayModeBar": False},
        )
        caption = html.escape(panel.caption).replace("\n", "<br>")
        heading = f"<strong>{html.escape(panel.title)}</strong><small>{caption}</small>"
        spheres.append(f"<figure><figcaption>{heading}</figcaption>{scene}</figure>")
    return _PAGE.format(
        title=html.escape(title),
        introduction=html.escape(introduction),
        ink=style.INK,
        spheres="\n".join(spheres),
    )
