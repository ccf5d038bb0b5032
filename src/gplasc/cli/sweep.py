"""Command ``sweep``."""

from __future__ import annotations

from pathlib import Path

from gplasc.cli._options import COMPUTING, PLACE, RUN, Axes, Computing, Place, RunOptions


def sweep_command(
    *,
    grid: Axes = (),
    seeds: tuple[int, ...] = (),
    out: Path = Path("runs"),
    options: RunOptions = RUN,
    place: Place = PLACE,
    computing: Computing = COMPUTING,
) -> int:
    """Compute a grid of settings and seeds.

    Complete runs are skipped, runs that were cut off continue, and one that fails does not stop the others.

    For example:

    gplasc sweep --plugin gplasc --grid margin=0,0.1,0.2 --seeds 0 1 2

    gplasc sweep --grid method=er,derpp buffer=100,200 --workers 2

    Args:
        grid: Axes: settings, or stream, method, plugin and buffer, such as margin=0,0.1 train.lr=0.1,0.5.
        seeds: Seeds of every point; default: that of --seed.
        out: Folder of all runs; tables go into a folder of it.
    """
    from gplasc._io.display import display
    from gplasc.runs.spec import RunRequest
    from gplasc.settings.parse import parse_assignments
    from gplasc.study.sweep import run_sweep

    given = options.named() | {"scale": None} | parse_assignments(options.set)
    return run_sweep(
        grid,
        seeds,
        RunRequest(**options.arguments()),
        place.workspace(out),
        computing,
        fixed={name for name, value in given.items() if value is not None},
        dry_run=computing.dry_run,
        display=display(place.quiet),
    )
