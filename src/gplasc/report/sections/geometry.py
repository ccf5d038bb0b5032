"""Where the tasks lie on the sphere, over the course of learning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from gplasc.report import style
from gplasc.report.charts import Chart, Guide
from gplasc.report.groups import Panel, finite
from gplasc.report.heatmap import HeatMap
from gplasc.report.lines import LINES, drawn_groups, group_line, line_styles, panel_section, say_limit
from gplasc.report.section import Block, Section
from gplasc.report.sphere import Cap, SpherePanel, TaskFeatures
from gplasc.report.wording import file_name, say_ends
from gplasc.results.statistics import spread

COSINE_CELLS = 5_000
"""Entries of cosine matrices that the page shows at most."""
SPHERES = 4
"""Spheres in a page at most."""


def _list_mean(values: Sequence[float]) -> float | None:
    known = finite(values)
    return sum(known) / len(known) if known else None


def _past_mean(values: Sequence[float]) -> float | None:
    """Mean over all tasks but the current one, which has had no time to move."""
    return _list_mean(values[:-1])


_DIAGNOSES: tuple[tuple[str, str, str, Callable[[Any], float | None]], ...] = (
    ("center_cosine_mean", "Cosine between task centers", "mean over pairs", lambda v: v),
    ("center_norm", "Length of the task centers", "mean over tasks", _list_mean),
    ("radius", "Radius of the task regions", "mean over tasks", _list_mean),
    ("vertex_cosine", "Cosine of task centers to their vertices", "mean over tasks", _list_mean),
    ("drift", "Drift of past class means", "mean distance", _past_mean),
    (
        "pairs_below_threshold",
        "Class pairs farther apart than their region allows",
        "share of pairs of the task just learned",
        lambda v: float(v),
    ),
)


_NO_PAIRS = (
    "No pair of classes of a task just learned has a cosine below the plug-in's threshold k: all classes lie inside "
    "the region of their task, so the range term is zero."
)


def geometry(panels: Sequence[Panel]) -> Section | None:
    """Where the tasks lie on the sphere, over the course of learning."""
    blocks: dict[int, list[Block]] = {}
    notes: list[str] = []
    spheres, room = 0, COSINE_CELLS
    for panel in panels:
        charts = _charts(panel, notes)
        found = _spheres(panel) if charts and spheres < SPHERES else []
        maps = _cosine_maps(panel, room) if charts else []
        spheres += len(found)
        room -= sum(len(heat.rows) * len(heat.columns) for heat in maps) // 2
        blocks[id(panel)] = [*charts, *found, *maps]
    return panel_section(
        "Geometry of the features",
        "From the unit-length features of the test images: the center of a task is the mean of its class means, "
        "its radius their root mean square distance from it. T centers cannot all be farther apart than the corners of "
        "a simplex, whose cosines are −1/(T−1). Drift is how far the class means of past tasks have moved since they "
        "were learned. Classes of a task whose cosine is below the plug-in's threshold k are farther apart than the "
        "region allows, and the range term acts on them.",
        panels,
        lambda panel: blocks[id(panel)],
        remark=say_limit,
        notes=notes,
    )


def _charts(panel: Panel, notes: list[str]) -> list[Chart]:
    """A chart for every diagnosis that has numbers; a diagnosis that is 0 everywhere becomes a note."""
    styles = line_styles(panel)
    tasks = max(group.num_tasks for group in panel.groups)
    guides = {"vertex_cosine": (Guide(1.0, "at the vertex"),)}
    if tasks > 1:
        simplex = -1 / (tasks - 1)
        guides["center_cosine_mean"] = (Guide(simplex, f"simplex ETF, −1/(T−1) = −{-simplex:.2f}"),)
    charts = []
    for name, title, label, reduce in _DIAGNOSES:
        lines = []
        for group in drawn_groups(panel, LINES):
            found = [finite(map(reduce, group.geometry(after, name))) for after in range(group.num_tasks)]
            points = [(float(after), spread(values)) for after, values in enumerate(found, 1) if values]
            lines += [group_line(group, points, styles)] if points else []
        words = f"After the last task: {say_ends(lines)}."
        chart = Chart(
            title,
            "tasks learned",
            label,
            tuple(lines),
            words,
            guides=guides.get(name, ()),
            name=f"geometry-{file_name(name)}",
        )
        if name == "pairs_below_threshold" and not any(y for line in lines for y in line.y):
            notes += [_NO_PAIRS] if lines else []
        elif chart.drawable:
            charts.append(chart)
    return charts


def _spheres(panel: Panel) -> list[SpherePanel]:
    """A base and its variant at one seed, to be compared; without such a pair, the first run."""
    for comparison in panel.comparisons:
        runs = [
            {r["settings"].get("seed", 0): r for r in g.records} for g in (comparison.base, comparison.group)
        ]
        seeds = sorted(set(runs[0]) & set(runs[1]))
        if seeds:
            names = (comparison.base.label, comparison.group.label)
            found = [_center_sphere(run[seeds[0]], name) for run, name in zip(runs, names, strict=True)]
            return [sphere for sphere in found if sphere is not None]
    sphere = _center_sphere(panel.groups[0].first, panel.groups[0].label)
    return [sphere] if sphere is not None else []


def _cosine_maps(panel: Panel, room: int) -> list[HeatMap]:
    """The cosines between task centers at the end, mean over seeds, of the best groups: at most `room` entries."""
    maps: list[HeatMap] = []
    for group in drawn_groups(panel, LINES):
        last = group.geometry(group.num_tasks - 1, "center_cosines")
        size = group.num_tasks
        room -= size * (size - 1) // 2
        if not last or size < 2 or room < 0 or any(len(m) != size for m in last):
            continue
        # Both halves are the same; the diagonal is 1.
        rows = [
            [sum(float(m[i][j]) for m in last) / len(last) if j < i else None for j in range(size - 1)]
            for i in range(1, size)
        ]
        tasks = tuple(str(task + 1) for task in range(size))
        maps.append(
            HeatMap(
                f"{group.label}: center cosines",
                tasks[1:],
                tasks[:-1],
                tuple(tuple(row) for row in rows),
                corner="task",
                digits=2,
                name=f"cosines-{file_name(group.label)}",
            )
        )
    return maps


def _center_sphere(record: dict[str, Any], name: str) -> SpherePanel | None:
    """The task centers of a run at the end, brought into three dimensions; None when the record has none.

    The Gram matrix of unit centers has the coordinates in its eigenvectors; three of them are kept.
    """
    rows = record.get("geometry") or []
    last = rows[-1] if rows else {}
    gram = numpy.array(last.get("center_cosines") or [], dtype=float)
    if gram.ndim != 2 or len(gram) < 2 or not numpy.isfinite(gram).all():
        return None
    values, vectors = numpy.linalg.eigh(gram)
    order = numpy.argsort(values)[::-1][:3]
    kept = numpy.clip(values[order], 0, None)
    points = numpy.zeros((len(gram), 3))
    points[:, : len(order)] = vectors[:, order] * numpy.sqrt(kept)
    share = float(kept.sum() / max(values.clip(0).sum(), 1e-12))
    lengths = numpy.linalg.norm(points, axis=1, keepdims=True)
    points = points / numpy.where(lengths > 1e-9, lengths, 1.0)
    tasks = []
    for index, point in enumerate(points):
        angle = math.atan2(last["radius"][index], max(last["center_norm"][index], 1e-9))
        if not math.isfinite(angle) or not numpy.linalg.norm(point) > 0.5:
            return None
        # A cap is less than half of the ball, and a collapsed one would not be seen.
        cap = Cap(point, min(max(angle, 0.02), 1.55))
        tasks.append(
            TaskFeatures(
                f"task {index + 1}",
                point.reshape(1, 1, 3),
                numpy.zeros(1, dtype=numpy.int64),
                style.color(index),
                cap,
                mark=str(index + 1),
            )
        )
    # Face the centers where they crowd on one side, from a little above.
    middle = points.mean(0)
    length = float(numpy.linalg.norm(middle))
    front = middle / length if length > 0.2 else numpy.array([0.8, 0.6, 0.0])
    view = front + 0.35 * numpy.cross(front, numpy.eye(3)[numpy.argmin(numpy.abs(front))])
    pole = numpy.eye(3)[numpy.argmin(numpy.abs(view))]
    if share > 0.999:
        exact = "exactly"
    else:
        exact = f"with {share:.1%} of their spread; regions may overlap here that are apart in all dimensions"
    seed = record["settings"].get("seed", 0)
    mean = gram[numpy.triu_indices(len(gram), 1)].mean()
    return SpherePanel(
        f"Task regions of {name}, seed {seed}",
        f"Three dimensions hold the {len(points)} task centers {exact}. Each region is the cap whose angle is that of "
        f"the task's radius seen from the origin. Mean cosine between centers: {mean:.2f}. "
        "Drag to turn.",
        tuple(tasks),
        view,
        pole,
        name=f"sphere-{file_name(name)}",
    )
