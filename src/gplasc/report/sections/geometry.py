"""Where the tasks lie on the sphere, over the course of learning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gplasc.report.charts import Chart, Series
from gplasc.report.heatmap import HeatMap
from gplasc.report.panels import LINES, Panel
from gplasc.report.projection import center_sphere
from gplasc.report.render import Block, Section
from gplasc.report.sphere import Sphere
from gplasc.report.wording import file_name, say_values
from gplasc.results.group import finite
from gplasc.results.statistics import spread

_COSINE_CELLS = 5_000  # entries of cosine matrices that the page shows at most
_SPHERES = 4  # spheres in a page at most


_MEAN = slice(None)
_PAST = slice(None, -1)  # all tasks but the current one, which has had no time to move
_DIAGNOSES = (
    ("center_cosine_mean", "Cosine between task centers", "mean over pairs", None),
    ("center_norm", "Length of the task centers", "mean over tasks", _MEAN),
    ("radius", "Radius of the task regions", "mean over tasks", _MEAN),
    ("vertex_cosine", "Cosine of task centers to their vertices", "mean over tasks", _MEAN),
    ("drift", "Drift of past class means", "mean distance", _PAST),
    (
        "pairs_below_threshold",
        "Class pairs farther apart than their region allows",
        "share of pairs of the task just learned",
        None,
    ),
)
"""Name, title and label of what is drawn, and the tasks whose mean it is, unless it is a number already."""
_NO_PAIRS = (
    "No pair of classes of a task just learned has a cosine below the plug-in's threshold k: all classes lie inside "
    "the region of their task, so the range term is zero."
)


def geometry(panels: Sequence[Panel]) -> Section | None:
    """Where the tasks lie on the sphere, over the course of learning."""
    notes: list[str] = []
    parts = []
    spheres, room = 0, _COSINE_CELLS
    for panel in panels:
        blocks: list[Block] = [*_charts(panel, notes)]
        if blocks:
            shown = _spheres(panel) if spheres < _SPHERES else []
            maps = _cosine_maps(panel, room)
            spheres += len(shown)
            room -= sum(len(heat.rows) * len(heat.columns) for heat in maps) // 2
            blocks += [*shown, *maps]
        parts.append((panel, blocks, panel.limit_note))
    text = (
        "From the unit-length features of the test images: the center of a task is the mean of its class means, "
        "its radius their root mean square distance from it. T centers cannot all be farther apart than the corners of "
        "a simplex, whose cosines are −1/(T−1). Drift is how far the class means of past tasks have moved since they "
        "were learned. Classes of a task whose cosine is below the plug-in's threshold k are farther apart than the "
        "region allows, and the range term acts on them."
    )
    return Section.of("Geometry of the features", text, parts, notes=notes)


def _charts(panel: Panel, notes: list[str]) -> list[Chart]:
    """A chart for every diagnosis that has numbers; pairs below the threshold that are 0 everywhere become a note."""
    guides = {"vertex_cosine": {1.0: "at the vertex"}}
    if panel.num_tasks > 1:
        simplex = -1 / (panel.num_tasks - 1)
        guides["center_cosine_mean"] = {simplex: f"simplex ETF, −1/(T−1) = −{-simplex:.2f}"}
    charts = []
    for name, title, label, tasks in _DIAGNOSES:
        lines = []
        for group in panel.best(LINES):
            points = {}
            for after in range(panel.num_tasks):
                values = group.geometry(after, name)
                means = [spread(finite(value[tasks])).mean for value in values] if tasks else values
                if numbers := finite(means):
                    points[after + 1] = spread(numbers)
            row = group.labels["row"]
            if points:
                lines.append(Series(row, points, *panel.looks[row]))
        ends = [(line.name, list(line.values.values())[-1].mean) for line in lines]
        words = f"After the last task: {say_values(ends)}."
        means = [value.mean for line in lines for value in line.values.values()]
        if name == "pairs_below_threshold" and not any(means):
            notes += [_NO_PAIRS] if lines else []
        elif lines:
            charts.append(
                Chart(
                    title, "tasks learned", label, tuple(lines), words, guides=guides.get(name, {}),
                    name=f"geometry-{file_name(name)}",
                )
            )  # fmt: skip
    return charts


def _spheres(panel: Panel) -> list[Sphere]:
    """A base and its variant at one seed, to be compared; without such a pair, the first run."""
    runs = [(panel.groups[0].labels["row"], panel.groups[0].first)]
    for variant, base in panel.pairs:
        if seeds := sorted(base.runs.keys() & variant.runs.keys()):
            both = [(group.labels["row"], record) for group in (base, variant) for record in group.records]
            runs = [(row, record) for row, record in both if record.seed == seeds[0]]
            break
    return [sphere for name, record in runs if (sphere := center_sphere(record, name))]


def _cosine_maps(panel: Panel, room: int) -> list[HeatMap]:
    """The cosines between task centers at the end, mean over seeds, of the best groups: at most `room` entries."""
    size = panel.num_tasks
    maps: list[HeatMap] = []
    for group in panel.best(LINES):
        last = [cosines for cosines in group.geometry(size - 1, "center_cosines") if cosines]
        room -= size * (size - 1) // 2
        if last and size > 1 and room >= 0:
            # Both halves are the same; the diagonal is 1.
            mean = np.array(last, dtype=float).mean(axis=0)[1:, :-1]
            rows = np.where(np.tri(size - 1, dtype=bool), mean, np.nan)
            tasks = tuple(str(task + 1) for task in range(size))
            row = group.labels["row"]
            maps.append(
                HeatMap(
                    f"{row}: center cosines", tasks[1:], tasks[:-1], rows, corner="task", digits=2,
                    name=f"cosines-{file_name(row)}",
                )
            )  # fmt: skip
    return maps
