"""Command ``tune``."""

from __future__ import annotations

from pathlib import Path

from gplasc.cli._options import PLACE, RUN, Axes, Place, RunOptions, check_threads


def tune_command(
    *,
    options: RunOptions = RUN,
    place: Place = PLACE,
    trials: int = 20,
    out: Path = Path("study"),
    space: Axes = (),
    search_seed: int = 0,
    workers: int = 1,
    threads: int | None = None,
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
        workers: Trials computed at the same time, in processes.
        threads: Threads of torch in each process; default: OMP_NUM_THREADS, else the cores divided by --workers.
        storage: Address of Optuna's storage, for workers on several machines; default: an SQLite file in --out.
    """
    from gplasc.study.processes import default_threads
    from gplasc.study.search import Search
    from gplasc.study.space import given_space, published_space
    from gplasc.study.tune import tune

    check_threads(threads)
    search = Search(
        options.arguments(),
        given_space(space) if space else published_space(options.resolve().config),
        trials,
        out,
        storage,
        search_seed,
        place.data_dir,
        place.device,
        threads or default_threads(max(1, workers)),
        place.quiet,
    )
    files = tune(search, workers)
    print(f"written: {', '.join(map(str, files))}")
    return 0
