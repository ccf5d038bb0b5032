"""What the page says about runs: one function a section, from panels to figures and tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gplasc.report.chart import Chart, Guide, HeatMap, Plot, Series
from gplasc.report.groups import (
    SCENARIOS,
    Group,
    Panel,
    finite,
    phase_seconds,
    show_value,
    varying_settings,
)
from gplasc.report.section import Block, Part, Section
from gplasc.report.table import Cell, Table
from gplasc.results.aggregate import Difference, Spread, spread

MATRIX_CELLS = 30_000
"""Entries of accuracy matrices that the page shows at most; the rest is in the CSV tables."""
SPHERES = 6
"""Spheres to turn: browsers allow a page about sixteen of them."""


def build_sections(panels: Sequence[Panel]) -> list[Section]:
    """Every section that the runs have something to say about, in the order of the page."""
    makers: tuple[Callable[[Sequence[Panel]], Section | None], ...] = (
        summary,
        against_paper,
        accuracy_by_task,
        forgetting,
        settings_effect,
        matrices,
        geometry,
        time,
        deviations,
        settings,
        provenance,
    )
    return [section for make in makers if (section := make(panels)) is not None]


def show_spread(value: Spread, digits: int = 2) -> str:
    """Mean and standard deviation; a dash when no run has the number.

    >>> show_spread(Spread(1.0, 0.5, 3)), show_spread(Spread(2.0, math.nan, 1)), show_spread(spread([]))
    ('1.00 ± 0.50', '2.00', '–')
    """
    if not math.isfinite(value.mean):
        return "–"
    return f"{value.mean:.{digits}f}" + (f" ± {value.std:.{digits}f}" if math.isfinite(value.std) else "")


def show_difference(value: Difference) -> str:
    """Mean paired difference and its interval.

    >>> show_difference(Difference(1.0, -0.5, 2.0, 3))
    '+1.00 [−0.50, +2.00]'
    """
    if not value.count:
        return "–"
    text = f"{value.mean:+.2f}"
    if math.isfinite(value.low):
        text += f" [{value.low:+.2f}, {value.high:+.2f}]"
    return text.replace("-", "−")


def tone(value: Difference, *, more_is_better: bool = True) -> Cell:
    """A difference as a cell: a gain or a loss only when the interval leaves 0 out."""
    text = show_difference(value)
    if not value.count or not math.isfinite(value.low) or value.low <= 0 <= value.high:
        return Cell(text, "muted" if not value.count else "")
    return Cell(text, "up" if (value.low > 0) == more_is_better else "down")


def _styles(panel: Panel) -> dict[str, tuple[int, bool]]:
    """Colour and openness of each group's line: a base and its plug-in variant share a colour, the base is open."""
    paired = {id(c.base): c.group for c in panel.comparisons}
    colors: dict[str, int] = {}
    result: dict[str, tuple[int, bool]] = {}
    titles = [group.title for group in panel.groups]
    for group in panel.groups:
        # Variants of one title cannot share the colour of their method.
        key = group.method if titles.count(group.title) == 1 else group.label
        color = colors.setdefault(key, len(colors))
        result[group.label] = (color, id(group) in paired)
    return result


def _line(
    panel: Panel, group: Group, points: Sequence[tuple[float, Spread]], styles: dict[str, tuple[int, bool]]
) -> Series:
    color, is_open = styles[group.label]
    low, high = zip(*(_band(s) for _, s in points), strict=True) if points else ((), ())
    return Series(
        group.label,
        tuple(x for x, _ in points),
        tuple(_known(s.mean) for _, s in points),
        low=tuple(low),
        high=tuple(high),
        color=color,
        open=is_open,
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _band(value: Spread) -> tuple[float | None, float | None]:
    if not (math.isfinite(value.mean) and math.isfinite(value.std)):
        return None, None
    return value.mean - value.std, value.mean + value.std


def _ends(series: Iterable[Series], unit: str = "") -> str:
    """The last value of every line, in words."""
    ends = [f"{s.name} {s.y[-1]:.3g}{unit}" for s in series if s.y and s.y[-1] is not None]
    return "; ".join(ends)


def _limit(text: str, length: int = 700) -> str:
    return (
        text
        if len(text) <= length
        else text[: text.rfind(";", 0, length)] + "; and more in the numbers below"
    )


def _folded(panels: Sequence[Panel]) -> bool:
    return len(panels) > 4


def summary(panels: Sequence[Panel]) -> Section:
    """Final accuracy of every group with the gain of the plug-ins."""
    parts = []
    for panel in panels:
        blocks: list[Block] = [summary_table(panel)]
        gains = gain_chart(panel)
        if gains is not None:
            blocks.append(gains)
        parts.append(Part(panel.title, tuple(blocks)))
    text = (
        "Accuracies are percent of the test images, averaged over tasks after the last one: among all classes "
        "seen (class-IL), or among those of the image's own task (task-IL). Each entry is mean ± standard deviation "
        "over n seeds. A gain is the mean difference, seed by seed, to the same method without the plug-in, with its "
        "bootstrap interval of 95 percent; it is marked where the interval leaves 0 out."
    )
    return Section("Summary", text=text, parts=tuple(parts), notes=tuple(_unlike_notes(panels)))


def _unlike_notes(panels: Sequence[Panel]) -> list[str]:
    notes = []
    for panel in panels:
        for c in panel.comparisons:
            if c.unlike:
                names = ", ".join(
                    f"{n} ({show_value(c.group.settings.get(n))}, base {show_value(c.base.settings.get(n))})"
                    for n in c.unlike
                )
                notes.append(f"{panel.title}: {c.group.label} and its base also differ in {names}.")
    return notes


def summary_table(panel: Panel) -> Table:
    """Both scenarios' accuracy with gains, and forgetting."""
    has_gain = bool(panel.comparisons)
    columns = ["method", "n"]
    for title in SCENARIOS.values():
        columns += [f"{title} accuracy", *([f"{title} gain"] if has_gain else [])]
    columns += ["class-IL average incremental", "class-IL forgetting", "task-IL forgetting"]
    best = {}
    for scenario in SCENARIOS:
        # Learning all tasks at once is the upper bound, not a contestant.
        means = [g.spread(scenario, "final_accuracy").mean for g in panel.groups if g.method != "joint"]
        best[scenario] = max(finite(means), default=math.nan)
    rows = []
    for group in panel.groups:
        row: list[str | Cell] = [group.label, str(len(group.records))]
        comparison = panel.comparison(group)
        for scenario in SCENARIOS:
            value = group.spread(scenario, "final_accuracy")
            is_best = value.mean == best[scenario] and len(panel.groups) > 1 and group.method != "joint"
            row.append(Cell(show_spread(value), "best" if is_best else ""))
            if has_gain:
                row.append(
                    tone(comparison.difference(scenario, "final_accuracy"))
                    if comparison
                    else Cell("–", "muted")
                )
        row.append(show_spread(group.spread("class_il", "average_incremental_accuracy")))
        row += [show_spread(group.spread(scenario, "forgetting")) for scenario in SCENARIOS]
        rows.append(tuple(row))
    return Table(
        panel.title, tuple(columns), tuple(rows), note=scale_note(panel.scale), name=f"summary-{panel.name}"
    )


def scale_note(scale: str) -> str:
    """What a scale's numbers are worth."""
    return {
        "smoke": "Measured at smoke scale: a few steps on a few small images, to show that everything runs. "
        "The numbers say nothing about the methods.",
        "cpu": "Measured at cpu scale: the same code with a smaller model, fewer epochs or fewer images than the "
        "published protocol. Not a reproduction of published numbers.",
    }.get(scale, "")


def gain_chart(panel: Panel) -> Chart | None:
    """The gains as dots with intervals."""
    if not panel.comparisons:
        return None
    series = []
    for index, (scenario, title) in enumerate(SCENARIOS.items()):
        gains = [(c.group.label, c.difference(scenario, "final_accuracy")) for c in panel.comparisons]
        known = [(label, gain) for label, gain in gains if gain.count]
        series.append(
            Series(
                title,
                tuple(label for label, _ in known),
                tuple(g.mean for _, g in known),
                low=tuple(_known(g.low) for _, g in known),
                high=tuple(_known(g.high) for _, g in known),
                color=index,
            )
        )
    words = [
        f"{label} {show_difference(gain)}"
        for label, gain in zip(
            series[0].x, [c.difference("class_il", "final_accuracy") for c in panel.comparisons], strict=False
        )
    ]
    chart = Chart(
        "Gain by the plug-in over the same method without it",
        "",
        "percentage points",
        tuple(series),
        _limit("Class-IL gain in points: " + "; ".join(words) + "."),
        kind="interval",
        guides=(Guide(0.0, "no gain"),),
        name=f"gain-{panel.name}",
    )
    return chart if chart.drawable else None


def _after_each_task(group: Group, scenario: str) -> list[tuple[float, Spread]]:
    points = []
    for after in range(group.num_tasks):
        means = []
        for record in group.records:
            seen = finite(record["matrix"][scenario][after])
            if seen:
                means.append(sum(seen) / len(seen))
        points.append((float(after + 1), spread(means)))
    return points


def _at_the_end(group: Group, scenario: str) -> list[tuple[float, Spread]]:
    return [
        (float(task + 1), spread(finite(r["matrix"][scenario][-1][task] for r in group.records)))
        for task in range(group.num_tasks)
    ]


def accuracy_by_task(panels: Sequence[Panel]) -> Section:
    """Mean accuracy after each task, and of each task at the end."""
    parts = []
    for panel in panels:
        styles = _styles(panel)
        blocks: list[Block] = []
        for points, what, label in (
            (_after_each_task, "Mean accuracy on the tasks seen", "tasks learned"),
            (_at_the_end, "Accuracy on each task at the end", "task"),
        ):
            for scenario, title in SCENARIOS.items():
                lines = tuple(_line(panel, g, points(g, scenario), styles) for g in panel.groups)
                start = "After the last task" if points is _after_each_task else "On the last task"
                blocks.append(
                    Chart(
                        f"{what}, {title}",
                        label,
                        "accuracy, percent",
                        lines,
                        _limit(f"{start}: {_ends(lines)}."),
                        y_range=(0, 102),
                        name=f"{_safe(label)}-{scenario.replace('_', '-')}-{panel.name}",
                    )
                )
        parts.append(Part(panel.title, tuple(blocks), folded=_folded(panels)))
    return Section(
        "Accuracy by task",
        text="Bars are one standard deviation over seeds. Methods without the plug-in are drawn dashed with open "
        "markers, in the colour of the same method with it.",
        parts=tuple(parts),
    )


def forgetting(panels: Sequence[Panel]) -> Section | None:
    """How much of what was learned is lost."""
    parts = []
    for panel in panels:
        if all(group.num_tasks < 2 for group in panel.groups):
            continue
        labels = tuple(g.label for g in panel.groups)
        series = []
        for index, (scenario, title) in enumerate(SCENARIOS.items()):
            found = [g.spread(scenario, "forgetting") for g in panel.groups]
            bands = [_band(s) for s in found]
            series.append(
                Series(
                    title,
                    labels,
                    tuple(_known(s.mean) for s in found),
                    low=tuple(low for low, _ in bands),
                    high=tuple(high for _, high in bands),
                    color=index,
                )
            )
        words = [
            f"{label} {value:.1f}"
            for label, value in zip(labels, series[0].y, strict=True)
            if value is not None
        ]
        chart = Chart(
            "Forgetting after the last task",
            "",
            "percentage points",
            tuple(series),
            _limit("Class-IL forgetting in points: " + "; ".join(words) + "."),
            kind="interval",
            guides=(Guide(0.0, "none"),),
            name=f"forgetting-{panel.name}",
        )
        rows = []
        for group in panel.groups:
            row: list[str | Cell] = [group.label]
            comparison = panel.comparison(group)
            for scenario in SCENARIOS:
                row += [
                    show_spread(group.spread(scenario, m))
                    for m in ("forgetting", "forgetting_nonnegative", "backward_transfer")
                ]
                row.append(
                    tone(comparison.difference(scenario, "forgetting"), more_is_better=False)
                    if comparison
                    else Cell("–", "muted")
                )
            rows.append(tuple(row))
        names = ("forgetting", "never below 0", "backward transfer", "change by plug-in")
        table = Table(
            f"Forgetting on {panel.title}",
            ("method", *(f"{title} {name}" for title in SCENARIOS.values() for name in names)),
            tuple(rows),
            name=f"forgetting-{panel.name}",
        )
        parts.append(
            Part(panel.title, (chart, table) if chart.drawable else (table,), folded=_folded(panels))
        )
    if not parts:
        return None
    return Section(
        "Forgetting",
        text="Forgetting is the best accuracy a task ever had before the last task, minus what it has at the end, "
        "averaged over all tasks but the last (Chaudhry et al., 2018): lower is better, and below 0 means that later "
        "tasks helped. The second column counts the last row among the best, so that it is never below 0. Backward "
        "transfer is the accuracy at the end minus that when the task had just been learned.",
        parts=tuple(parts),
    )


def settings_effect(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy over a setting that was varied on its own, the size of the memory among them."""
    families: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for panel in panels:
        for group in panel.groups:
            families[panel.stream, panel.scale].append(group)
    parts = []
    for (stream, scale), groups in families.items():
        blocks: list[Block] = []
        by_title: dict[str, list[Group]] = defaultdict(list)
        for group in groups:
            by_title[group.title].append(group)
        names = dict.fromkeys(n for same in by_title.values() for n in varying_settings(same))
        for name in names:
            slices = [
                (label, s)
                for title, same in sorted(by_title.items())
                for label, s in _slices(title, same, name)
            ]
            if not slices:
                continue
            for scenario, scenario_title in SCENARIOS.items():
                blocks.append(_effect_chart(name, slices, scenario, scenario_title, f"{stream}-{scale}"))
        if blocks:
            parts.append(Part(f"{stream}, {scale} scale", tuple(blocks)))
    if not parts:
        return None
    return Section(
        "Effect of settings",
        text="Each line varies one setting and keeps all others that were given; presets may follow.",
        parts=tuple(parts),
    )


def _slices(title: str, groups: Sequence[Group], name: str) -> list[tuple[str, list[Group]]]:
    """Groups of one title that differ in the numeric setting `name` alone, at least three values each."""
    given = {
        n
        for n in varying_settings(groups)
        if n != name and (n == "buffer" or any(g.sources.get(n) == "given" for g in groups))
    }
    if name != "buffer" and not any(g.sources.get(name) == "given" for g in groups):
        return []
    found: dict[tuple[tuple[str, str], ...], dict[float, Group]] = defaultdict(dict)
    for group in groups:
        value = group.settings.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            others = tuple((n, show_value(group.settings.get(n))) for n in sorted(given))
            found[others].setdefault(float(value), group)
    return [
        (
            ", ".join([title, *(f"{n.rpartition('.')[2]} {v}" for n, v in others)]),
            [same[v] for v in sorted(same)],
        )
        for others, same in found.items()
        if len(same) >= 3
    ]


def _effect_chart(
    name: str, slices: Sequence[tuple[str, list[Group]]], scenario: str, scenario_title: str, where: str
) -> Chart:
    lines = []
    for index, (label, groups) in enumerate(slices):
        points = [(float(g.settings[name]), g.spread(scenario, "final_accuracy")) for g in groups]
        bands = [_band(s) for _, s in points]
        lines.append(
            Series(
                label,
                tuple(x for x, _ in points),
                tuple(_known(s.mean) for _, s in points),
                low=tuple(low for low, _ in bands),
                high=tuple(high for _, high in bands),
                color=index,
            )
        )
    places = [x for line in lines for x in line.x if isinstance(x, (int, float))]
    wide = min(places) > 0 and max(places) / min(places) > 30
    words = []
    for line in lines:
        known = [(y, x) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        if known:
            low, high = min(known, key=lambda k: k[0]), max(known, key=lambda k: k[0])
            words.append(f"{line.name} from {low[0]:.1f} at {low[1]:g} to {high[0]:.1f} at {high[1]:g}")
    safe = "".join(c if c.isascii() and c.isalnum() else "-" for c in f"{name}-{where}".lower())
    return Chart(
        f"{name}: final accuracy, {scenario_title}",
        name,
        "accuracy, percent",
        tuple(lines),
        _limit("; ".join(words) + "."),
        log_x=wide,
        name=f"effect-{safe}-{scenario.replace('_', '-')}",
    )


def matrices(panels: Sequence[Panel]) -> Section:
    """Every accuracy matrix as a heat map."""
    parts, left, hidden = [], MATRIX_CELLS, 0
    for panel in panels:
        blocks: list[Block] = []
        for group in panel.groups:
            size = group.num_tasks**2
            if 2 * size > left:
                hidden += 1
                continue
            left -= 2 * size
            tasks = tuple(str(task + 1) for task in range(group.num_tasks))
            for scenario, title in SCENARIOS.items():
                blocks.append(
                    HeatMap(
                        f"{group.label}, {title}",
                        tasks,
                        tasks,
                        tuple(tuple(row) for row in group.matrix(scenario)),
                        corner="after / on task",
                        digits=1 if group.num_tasks <= 10 else 0,
                        name=f"matrix-{_safe(group.label)}-{scenario.replace('_', '-')}-{panel.name}",
                    )
                )
        if blocks:
            parts.append(Part(panel.title, tuple(blocks), folded=len(panels) > 1))
    notes = (
        (f"{hidden} more are left out here; `gplasc report --tables` writes all of them.",) if hidden else ()
    )
    return Section(
        "Accuracy matrices",
        text="Row t, column i: accuracy in percent on task i after learning task t, mean over seeds.",
        parts=tuple(parts),
        notes=notes,
    )


def _safe(text: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)


def _pair_mean(matrix: Sequence[Sequence[float]]) -> float | None:
    """Mean of the entries off the diagonal; None for one row."""
    values = finite(v for i, row in enumerate(matrix) for j, v in enumerate(row) if i != j)
    return sum(values) / len(values) if values else None


def _list_mean(values: Sequence[float]) -> float | None:
    known = finite(values)
    return sum(known) / len(known) if known else None


def _past_mean(values: Sequence[float]) -> float | None:
    """Mean over all tasks but the current one, which has had no time to move."""
    return _list_mean(values[:-1])


_DIAGNOSES: tuple[tuple[str, str, str, Callable[[Any], float | None]], ...] = (
    ("center_cosines", "Cosine between task centres", "mean over pairs", _pair_mean),
    ("center_norm", "Length of the task centres", "mean over tasks", _list_mean),
    ("radius", "Radius of the task regions", "mean over tasks", _list_mean),
    ("vertex_cosine", "Cosine of task centres to their vertices", "mean over tasks", _list_mean),
    ("drift", "Drift of past class means", "mean distance", _past_mean),
    (
        "pairs_below_threshold",
        "Class pairs of the current task below the cosine threshold",
        "share of pairs",
        lambda v: float(v),
    ),
)


def geometry(panels: Sequence[Panel]) -> Section | None:
    """Where the tasks lie on the sphere, over the course of learning."""
    parts = []
    spheres = 0
    for panel in panels:
        styles = _styles(panel)
        charts: list[Block] = []
        for name, title, label, reduce in _DIAGNOSES:
            lines = []
            for group in panel.groups:
                points = []
                for after in range(group.num_tasks):
                    values = finite(reduce(v) for v in group.geometry(after, name))
                    if values:
                        points.append((float(after + 1), spread(values)))
                if points:
                    lines.append(_line(panel, group, points, styles))
            tasks = max(group.num_tasks for group in panel.groups)
            guides: tuple[Guide, ...] = ()
            if name == "center_cosines" and tasks > 1:
                guides = (
                    Guide(
                        -1 / (tasks - 1), f"simplex ETF, −1/(T−1) = {-1 / (tasks - 1):.2f}".replace("-", "−")
                    ),
                )
            if name == "vertex_cosine":
                guides = (Guide(1.0, "at the vertex"),)
            chart = Chart(
                title,
                "tasks learned",
                label,
                tuple(lines),
                _limit(f"After the last task: {_ends(lines)}."),
                guides=guides,
                name=f"geometry-{name.replace('_', '-')}-{panel.name}",
            )
            if chart.drawable:
                charts.append(chart)
        if not charts:
            continue
        for group in panel.groups:
            sphere = centre_sphere(group) if spheres < SPHERES and _worth_a_sphere(panel, group) else None
            if sphere is not None:
                charts.append(sphere)
                spheres += 1
        charts += _cosine_maps(panel)
        parts.append(Part(panel.title, tuple(charts), folded=_folded(panels)))
    if not parts:
        return None
    return Section(
        "Geometry of the features",
        text="From the unit-length features of the test images: the centre of a task is the mean of its class means, "
        "its radius their root mean square distance from it. T centres cannot all be farther apart than the corners of "
        "a simplex, whose cosines are −1/(T−1). Drift is how far the class means of past "
        "tasks have moved since they were learned.",
        parts=tuple(parts),
    )


def _worth_a_sphere(panel: Panel, group: Group) -> bool:
    """Pairs of base and variant are worth comparing; without any, the first group."""
    if panel.comparisons:
        first = panel.comparisons[0]
        return group is first.group or group is first.base
    return group is panel.groups[0]


def _cosine_maps(panel: Panel) -> list[Block]:
    maps: list[Block] = []
    for group in panel.groups[:24]:
        last = group.geometry(group.num_tasks - 1, "center_cosines")
        size = group.num_tasks
        if not last or size < 2 or size > 20 or any(len(m) != size for m in last):
            continue
        count = len(last)
        mean = tuple(
            tuple(sum(float(m[i][j]) for m in last) / count if i != j else None for j in range(size))
            for i in range(size)
        )
        tasks = tuple(str(task + 1) for task in range(size))
        maps.append(
            HeatMap(
                f"{group.label}: centre cosines",
                tasks,
                tasks,
                mean,
                corner="task",
                top=1.0,
                signed=True,
                digits=2,
                name=f"cosines-{_safe(group.label)}-{panel.name}",
            )
        )
    return maps


def centre_sphere(group: Group) -> Plot | None:
    """The task centres of the first run at the end, turned into three dimensions: exact for up to four tasks.

    The Gram matrix of unit centres has the coordinates in its eigenvectors; three of them are kept.
    """
    import numpy

    from gplasc.report import style
    from gplasc.report.sphere import Cap, SpherePanel, TaskFeatures, sphere_scene

    rows = group.first.get("geometry") or []
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
            )
        )
    view = points.mean(0) + numpy.array([0.9, 0.7, 0.45])
    pole = numpy.array([0.0, 0.0, 1.0])
    figure = sphere_scene(SpherePanel(group.label, "", tuple(tasks), view, pole))
    exact = "exactly" if share > 0.999 else f"with {share:.0%} of their spread"
    seed = group.first["settings"].get("seed", 0)
    return Plot(
        f"Task regions of {group.label}, seed {seed}",
        figure,
        f"Three dimensions hold the {len(points)} task centres {exact}. Each region is the cap whose angle is that of "
        f"the task's radius seen from the origin. Mean cosine between centres: {_pair_mean(gram.tolist()):.2f}. "
        "Drag to turn.",
    )


def time(panels: Sequence[Panel]) -> Section | None:
    """Seconds per phase, and what the plug-ins add."""
    parts = []
    for panel in panels:
        names = list(dict.fromkeys(n for g in panel.groups for r in g.records for n in phase_seconds(r)))
        if not names:
            continue
        labels = tuple(g.label for g in panel.groups)
        rows, series = [], []
        for index, name in enumerate(names):
            means = tuple(
                _known(spread([phase_seconds(r).get(name, 0.0) for r in g.records]).mean)
                for g in panel.groups
            )
            series.append(Series(name, labels, means, color=index))
        for group in panel.groups:
            comparison = panel.comparison(group)
            cost = comparison.overhead() if comparison else None
            per_task = [
                phase_seconds(r).get("train", 0.0) / max(len(r.get("timings") or []), 1)
                for r in group.records
            ]
            rows.append(
                (
                    group.label,
                    *(
                        show_spread(spread([phase_seconds(r).get(n, 0.0) for r in group.records]))
                        for n in names
                    ),
                    show_spread(spread(per_task)),
                    f"× {show_spread(cost)}" if cost and cost.count else Cell("–", "muted"),
                )
            )
        totals = [sum(v or 0.0 for v in column) for column in zip(*(s.y for s in series), strict=True)]
        words = "; ".join(f"{label} {total:.3g}" for label, total in zip(labels, totals, strict=True))
        chart = Chart(
            "Seconds per run by phase",
            "",
            "seconds",
            tuple(series),
            _limit(f"Seconds in all: {words}."),
            kind="stack",
            name=f"time-{panel.name}",
        )
        table = Table(
            f"Seconds on {panel.title}",
            ("method", *names, "training, per task", "training, plug-in to base"),
            tuple(rows),
            name=f"time-{panel.name}",
        )
        parts.append(Part(panel.title, (chart, table), folded=_folded(panels)))
    if not parts:
        return None
    return Section(
        "Time",
        text="Mean over seeds. The ratio of training times compares runs of equal seed on the same device, processor "
        "and number of threads; machines that did other work at the same time disturb it.",
        parts=tuple(parts),
    )


def deviations(panels: Sequence[Panel]) -> Section | None:
    """Where methods and plug-ins depart from their papers."""
    found: dict[str, dict[str, None]] = {}
    for panel in panels:
        for group in panel.groups:
            for name, texts in (group.first.get("deviations") or {}).items():
                found.setdefault(name, {}).update(dict.fromkeys(texts))
    rows = tuple((name, text) for name in sorted(found) for text in found[name])
    if not rows:
        return None
    table = Table("Departures from papers and official code", ("method", "departure"), rows, text_columns=2)
    return Section(
        "Deviations",
        (table,),
        text="What these methods do otherwise than their papers or official code, and why.",
    )


def settings(panels: Sequence[Panel]) -> Section:
    """The settings all runs share, and what each group has beside them."""
    groups = [(panel, group) for panel in panels for group in panel.groups]
    differing = set(varying_settings([group for _, group in groups]))
    first = groups[0][1]
    shared = tuple(
        (name, show_value(value), first.sources.get(name, ""))
        for name, value in first.settings.items()
        if name not in differing
    )
    parts = []
    if shared:
        parts.append(
            Part(
                "Shared by all runs",
                (Table("Shared by all runs", ("setting", "value", "from"), shared, text_columns=3),),
                folded=True,
            )
        )
    if len(groups) > 1:
        for panel in panels:
            tables: list[Block] = []
            for group in panel.groups:
                rows = tuple(
                    (name, show_value(value), group.sources.get(name, ""))
                    for name, value in group.settings.items()
                    if name in differing
                )
                tables.append(Table(group.label, ("setting", "value", "from"), rows, text_columns=3))
            parts.append(Part(panel.title, tuple(tables), folded=True))
    seeds = sorted({r["settings"].get("seed", 0) for _, g in groups for r in g.records})
    listed = ", ".join(map(str, seeds[:20])) + (" and more" if len(seeds) > 20 else "")
    return Section(
        "Settings",
        parts=tuple(parts),
        text=f"Seeds: {listed}. `from` names the preset or says that the value was given.",
    )


def provenance(panels: Sequence[Panel]) -> Section:
    """Every run with where, when and by which code it was computed, and what its stream held."""
    rows = []
    for panel in panels:
        for group in panel.groups:
            for record in group.records:
                where = record.get("environment") or {}
                rows.append(
                    (
                        str(record["run_id"]),
                        group.label,
                        panel.stream,
                        str(record["settings"].get("seed", 0)),
                        str(where.get("finished", "")),
                        str(where.get("gplasc", "")),
                        str(where.get("commit") or "")[:12],
                        f"{where.get('device', '')}, {where.get('threads', '?')} threads",
                        f"Python {where.get('python', '?')}, torch {where.get('torch', '?')}",
                        str(record.get("steps", "")),
                        f"{record.get('parameters', 0):,}".replace(",", " "),
                        str((record.get("memory") or {}).get("rows", "")),
                        f"{record.get('seconds', math.nan):.1f}",
                        str(record.get("weights_sha256", ""))[:12],
                    )
                )
    columns = (
        "run", "method", "stream", "seed", "finished", "gplasc", "commit", "device", "software",
        "steps", "parameters", "rows in memory", "seconds", "weights, SHA-256",
    )  # fmt: skip
    runs = Table("Every run", columns, tuple(rows), name="runs", text_columns=9)
    return Section(
        "Provenance",
        parts=(
            Part("Runs", (runs,), folded=len(rows) > 30),
            Part("Streams", (streams(panels),), folded=True),
        ),
    )


def streams(panels: Sequence[Panel]) -> Table:
    """What each stream held."""
    rows: dict[tuple[Any, ...], tuple[str, ...]] = {}
    for panel in panels:
        for group in panel.groups:
            stream = group.first["stream"]
            names = [str(n) for n in stream.get("class_names") or []]
            shown = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
            row = (
                panel.stream,
                show_value(list(panel.classes_per_task)),
                "×".join(map(str, stream.get("image_shape") or [])),
                show_value(stream.get("train_samples") or []),
                show_value(stream.get("test_samples") or []),
                shown,
                " ".join(map(str, stream.get("notes") or [])),
            )
            rows[row] = row
    columns = (
        "stream",
        "classes per task",
        "image shape",
        "training images",
        "test images",
        "classes",
        "notes",
    )
    return Table("Streams", columns, tuple(rows.values()), text_columns=7)


def against_paper(panels: Sequence[Panel]) -> Section | None:
    """Ours beside the published numbers, where there are any."""
    from gplasc.report.published import paper_table

    parts, notes = [], []
    for panel in panels:
        found = paper_table(panel)
        if found is not None:
            table, remarks = found
            parts.append(Part(panel.title, (table,)))
            notes += [remark for remark in remarks if remark not in notes]
    if not parts:
        return None
    return Section(
        "Beside the paper",
        text="Published numbers are those of the full protocol. A difference is given only where ours was measured at "
        "paper scale too; elsewhere the two stand side by side to compare the order of methods and the sign of gains, "
        "and are no reproduction.",
        parts=tuple(parts),
        notes=tuple(notes),
    )
