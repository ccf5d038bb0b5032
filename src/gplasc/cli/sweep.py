"""Commands ``sweep`` and ``tune``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gplasc.cli._options import Axes, Computing, Place, RunOptions
from gplasc.study.executors import Engine


def _sweep(
    *,
    grid: Axes = (),
    seeds: tuple[int, ...] = (),
    out: Path = Path("runs"),
    options: RunOptions = RunOptions(),
    place: Place = Place(),
    computing: Computing = Computing(),
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
    from gplasc.settings.parse import parse_assignments
    from gplasc.study.sweep import run_sweep

    return run_sweep(
        grid,
        seeds,
        options.request(),
        place.workspace(out),
        computing,
        fixed=(options.named() | parse_assignments(options.set)).keys() - {"scale"},
        dry_run=computing.dry_run,
        display=display(place.quiet),
    )


@Parameter(name="*", group="Computing")
@dataclass(frozen=True, kw_only=True)
class _SearchComputing(Engine):
    storage: Annotated[str | None, Parameter(parse=False)] = None  # the name is that of Optuna's storage here


def _tune(
    *,
    options: RunOptions = RunOptions(),
    place: Place = Place(),
    computing: _SearchComputing = _SearchComputing(),
    trials: int = 20,
    out: Path = Path("study"),
    space: Axes = (),
    search_seed: int = 0,
    storage: str | None = None,
) -> int:
    """Search for the best settings on a validation split.

    The search uses Optuna (extra `tune`). Run again, the command continues the study. It ends with best.toml,
    to be read with --config.

    For example:
    gplasc tune --method co2l --plugin gplasc --trials 20 --out study
    gplasc run --config study/best.toml

    Args:
        trials: Number of trials in all, those of earlier commands included.
        out: Folder of the study and of its runs.
        space: Settings and values to search, such as margin=0,0.1; default: what the paper searched.
        search_seed: Seed of the search; --seed is that of every run.
        storage: Address of Optuna's storage, for workers on several machines; default: an SQLite file in --out.
    """
    from gplasc._io.display import display
    from gplasc.study.points import tune_space
    from gplasc.study.search import Search, tune

    request = options.request()
    search = Search(
        request,
        tune_space(space, request.resolve().config),
        trials,
        out,
        storage,
        search_seed,
        place.data_dir,
        place.device,
    )
    files = tune(search, computing, display(place.quiet))
    print(f"written: {', '.join(map(str, files))}")
    return 0
