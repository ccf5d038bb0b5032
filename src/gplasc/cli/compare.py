"""Command ``compare``."""

from __future__ import annotations

from pathlib import Path

from gplasc.cli._options import (
    COMPARISON,
    COMPUTING,
    PLACE,
    ComparisonOptions,
    Computing,
    Place,
    Scale,
    run_comparison,
)


def compare_command(
    *,
    stream: str = "seq-digits",
    methods: tuple[str, ...] = ("co2l",),
    seeds: tuple[int, ...] = (0, 1, 2),
    tune: int | None = None,
    scale: Scale = "cpu",
    out: Path = Path("runs"),
    comparison: ComparisonOptions = COMPARISON,
    place: Place = PLACE,
    computing: Computing = COMPUTING,
) -> int:
    """Compare methods with and without plug-ins on a stream.

    All rows have the same seeds and, with --tune, the same number of trials.

    For example:

    gplasc compare --stream seq-digits --methods co2l er --plugins gplasc gplasc-plus --seeds 0 1 2

    gplasc compare --stream seq-fashion --methods co2l --plugins gplasc --tune 8 --workers 2

    Args:
        stream: Name of a stream (see `gplasc list`), folder:PATH or npz:PATH.
        methods: Names of methods, or paths of Python files with your own.
        seeds: Seeds of the runs on test.
        tune: Trials that every row is tuned with, on a validation split; without it the presets are used.
        scale: paper: the published protocol; cpu: a budget for two cores; smoke: seconds.
        out: Folder of all runs; the tables go into a folder of it.
    """
    rows = {
        "streams": (stream,),
        "methods": methods,
        "seeds": seeds,
        "trials": 1 if tune is None else tune,
        "scale": scale,
        "temperatures": (),
    }
    return run_comparison(rows, comparison, out, place, computing)
