"""`make bench`: measure, print a row for every bar, write bench.json, and compare with stored figures."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from benchmarks.speed import steps
from benchmarks.speed.evaluation import measure_evaluation
from benchmarks.speed.figure import Figure, Measured, got_worse, read_measured, write_measured
from benchmarks.speed.growth import measure_growth
from benchmarks.speed.memory import measure_memory
from benchmarks.speed.plain_loop import measure_peer
from benchmarks.speed.precision import measure_precision
from benchmarks.speed.startup import measure_smoke, measure_startup

from gplasc._io.table import Column, Marked, Table
from gplasc.errors import UserError
from gplasc.runs.cost import torch_threads

_MEASUREMENTS: dict[str, Callable[[bool], Measured | list[Figure]]] = {
    "overhead": steps.measure_overhead,
    "efficiency": steps.measure_efficiency,
    "teacher": steps.measure_teacher,
    "evaluation": measure_evaluation,
    "peer": measure_peer,
    "precision": measure_precision,
    "growth": measure_growth,
    "memory": measure_memory,
    "startup": measure_startup,
    "smoke": measure_smoke,
    "checkpoints": steps.measure_checkpoints,
}
STORED = Path(__file__).parent / "figures.json"
"""The figures of the last release, measured by this command."""


def bench(
    names: Sequence[str], out: Path, *, quick: bool, against: Path = STORED, store: bool = False
) -> int:
    """Measure some items, or all; return 1 if a figure misses its bar that did not miss it before, else 0."""
    if unknown := [name for name in names if name not in _MEASUREMENTS]:
        raise UserError(f"there is no item {unknown[0]!r}; choose from {', '.join(_MEASUREMENTS)}")
    if quick and store:
        raise UserError("--quick measures nothing worth keeping; give --store without it")
    before = read_measured(against)
    now = Measured()
    with torch_threads(1):
        for name in names or _MEASUREMENTS:
            print(f"measuring {name} ...", flush=True)
            measured = _MEASUREMENTS[name](quick)
            now += measured if isinstance(measured, Measured) else Measured(measured)
    figures_table(now, before).print()
    written = [write_measured(out / "bench.json", now, _environment())]
    if store:
        written.append(write_measured(against, before + now, _environment()))
    print(f"written: {', '.join(map(str, written))}")
    worse = [] if quick else got_worse(before, now)
    if worse:
        names = ", ".join(f"{figure.item}: {figure.name}" for figure in worse)
        print(f"worse than the bar, and not in {against}: {names}")
    return 1 if worse else 0


def figures_table(now: Measured, before: Measured | None = None) -> Table:
    """Return a row for every figure: value, bar, verdict, and the stored value if stored figures are given."""
    rows: list[list[Any]] = []
    for figure in now.figures:
        bar = "" if figure.bar is None else f"at {figure.at} {figure.bar:g}"
        verdict = Marked("met", "better") if figure.within else Marked("missed", "worse")
        old = [] if before is None else [_shown(before.find(figure))]
        known = Marked("", "") if figure.bar is None else verdict
        rows.append([figure.item, figure.name, _shown(figure), bar, known, *old])
    breaks = [row for row, (above, own) in enumerate(pairwise(now.figures), 1) if above.item != own.item]
    columns: list[Column | str] = [
        Column("item", "left"),
        Column("measured", "left"),
        "figure",
        "bar",
        Column("verdict", "left"),
    ]
    return Table("", [*columns, *([] if before is None else ["stored"])], rows, breaks=breaks)


def _shown(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.value:.3g} {figure.unit}".strip()


def _environment() -> dict[str, Any]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Parse the command line and measure; see `bench` for the meaning of the options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.command", description=__doc__)
    parser.add_argument("items", nargs="*", help=f"what to measure: {', '.join(_MEASUREMENTS)}")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder of bench.json")
    parser.add_argument("--quick", action="store_true", help="something tiny, which shows that it works")
    parser.add_argument("--store", action="store_true", help="also write the figures into that file")
    given = parser.parse_args(words)
    try:
        return bench(given.items, given.out, quick=given.quick, store=given.store)
    except UserError as error:
        print(f"make bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
