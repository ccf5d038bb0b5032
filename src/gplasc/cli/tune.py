"""Command ``tune``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gplasc.cli._options import PLACE, RUN, Axes, Place, RunOptions
from gplasc.study.executors import Engine


@Parameter(name="*", group="Computing")
@dataclass(frozen=True, kw_only=True)
class _Computing(Engine):
    workers: int | None = None
    """Trials computed at the same time, in processes; default: 1. Ray: as many as there is room for."""
    storage: Annotated[str | None, Parameter(parse=False)] = None  # the name is that of Optuna's storage here


_COMPUTING = _Computing()


def tune_command(
    *,
    options: RunOptions = RUN,
    place: Place = PLACE,
    computing: _Computing = _COMPUTING,
    trials: int = 20,
    out: Path = Path("study"),
    space: Axes = (),
    search_seed: int = 0,
    storage: str | None = None,
) -> int:
    """Search for the best settings on a validation split.

    The search uses Optuna (extra `tune`). Run again, the command continues the study. It ends with best.toml,
    to be read with --config, and study.svg.

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
    from gplasc.runs.spec import RunRequest
    from gplasc.study.search import Search
    from gplasc.study.space import given_space, published_space
    from gplasc.study.tune import tune

    search = Search(
        RunRequest(**options.arguments()),
        given_space(space) if space else published_space(options.resolve().config),
        trials,
        out,
        storage,
        search_seed,
        place.data_dir,
        place.device,
    )
    engine = computing if computing.engine == "ray" else replace(computing, workers=computing.workers or 1)
    files = tune(search, engine, display(place.quiet))
    print(f"written: {', '.join(map(str, files))}")
    return 0
