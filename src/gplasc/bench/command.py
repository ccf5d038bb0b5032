"""`gplasc bench`: measure, print a row for every bar, write JSON and a picture, and compare with stored figures."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gplasc._io.table import Column, Marked, Table
from gplasc.bench.checkpointing import measure_checkpoints
from gplasc.bench.evaluation import measure_evaluation
from gplasc.bench.figure import Figure, Measured, got_worse, names_of, read_measured, write_measured
from gplasc.bench.growth import measure_growth
from gplasc.bench.memory import measure_memory
from gplasc.bench.picture import write_picture
from gplasc.bench.plain_loop import measure_loop
from gplasc.bench.selection import measure_selection
from gplasc.bench.startup import measure_smoke, measure_startup
from gplasc.bench.steps import measure_efficiency, measure_overhead, measure_teacher
from gplasc.errors import UserError
from gplasc.runs.cost import torch_threads

_MEASUREMENTS: dict[str, Callable[[bool], Measured | list[Figure]]] = {
    "overhead": measure_overhead,
    "efficiency": measure_efficiency,
    "teacher": measure_teacher,
    "evaluation": measure_evaluation,
    "loop": lambda quick: [*measure_loop(quick), *measure_selection(quick)],
    "growth": measure_growth,
    "memory": measure_memory,
    "startup": measure_startup,
    "smoke": measure_smoke,
    "checkpoints": measure_checkpoints,
}
STORED = Path(__file__).parent / "figures.json"
"""The figures of the last release, measured by this command."""


def bench(
    names: Sequence[str], out: Path, *, quick: bool, against: Path = STORED, store: bool = False
) -> int:
    """Measure some items, or all.

    Args:
        names: Items; none: all of them.
        out: Folder for ``bench.json`` and ``bench.svg``.
        quick: Whether to measure something tiny, which shows that everything works and nothing else.
        against: File of figures to compare with.
        store: Whether to write the figures into that file; those of other items stay.

    Returns:
        0, or 1 if a figure misses its bar that did not miss it before.

    Raises:
        UserError: If there is no such item.
    """
    if unknown := [name for name in names if name not in _MEASUREMENTS]:
        raise UserError(f"there is no item {unknown[0]!r}; choose from {', '.join(_MEASUREMENTS)}")
    if quick and store:
        raise UserError("--quick measures nothing worth keeping; give --store without it")
    before = read_measured(against)
    now = Measured()
    with torch_threads(1):
        for name in names or _MEASUREMENTS:
            print(f"measuring {name} ...", flush=True)
            found = _MEASUREMENTS[name](quick)
            now += found if isinstance(found, Measured) else Measured(found)
    figures_table(now, before).print()
    written = [write_measured(out / "bench.json", now, _environment()), write_picture(out / "bench.svg", now)]
    if store:
        written.append(write_measured(against, before + now, _environment()))
    print(f"written: {', '.join(map(str, written))}")
    worse = [] if quick else got_worse(before, now)
    if worse:
        print(f"worse than the bar, and not in {against}: {names_of(worse)}")
    return 1 if worse else 0


def figures_table(now: Measured, before: Measured | None = None) -> Table:
    """Return a row for every figure: value, bar, verdict, and the stored value if stored figures are given."""
    rows: list[list[Any]] = []
    breaks = []
    for number, figure in enumerate(now.figures):
        if number and figure.item != now.figures[number - 1].item:
            breaks.append(number)
        bar = "" if figure.bar is None else f"at {figure.at} {figure.bar:g}"
        verdict = (
            Marked("", "")
            if figure.bar is None
            else Marked("met", "better")
            if figure.within
            else Marked("missed", "worse")
        )
        old = [] if before is None else [_shown(before.find(figure))]
        rows.append([figure.item, figure.name, _shown(figure), bar, verdict, *old])
    columns: list[Column | str] = [
        Column("item", "left"),
        Column("measured", "left"),
        "figure",
        "bar",
        Column("verdict", "left"),
    ]
    return Table("", [*columns, *([] if before is None else ["stored"])], rows, breaks=breaks)


def growth_table(measured: Measured) -> Table:
    """Return a row for every curve over the length of the stream, with a column for every length."""
    curves = [curve for curve in measured.curves if curve.x_label == "tasks of the stream"]
    lengths = curves[0].x if curves else ()
    rows: list[list[Any]] = []
    for curve in curves:
        unit, factor = ("ms", 1e3) if curve.y_label == "processor seconds" else (curve.y_label, 1.0)
        name = (
            f"{curve.name}, {unit} a task" if unit == "ms" else f"{curve.name}: {curve.chart.lower()}, {unit}"
        )
        rows.append([name, *(f"{factor * value:.3g}" for value in curve.y)])
    return Table("", [Column("tasks of the stream", "left"), *(f"{length:g}" for length in lengths)], rows)


def _shown(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.value:.3g} {figure.unit}".strip()


def _environment() -> dict[str, Any]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
