"""Command ``reproduce``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from cyclopts import Parameter

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
from gplasc.errors import UserError


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class _Part:
    scale: Scale = "cpu"
    """paper: the published protocol; cpu: a budget for two cores; smoke: seconds, on synthetic images."""
    seeds: tuple[int, ...] = ()
    """Seeds; default: five at paper scale, three at cpu scale, one at smoke scale; with --fair: 0 1 2 3 4."""
    only: tuple[str, ...] = ()
    """Streams, buffers or rows of the table to keep, for example seq-cifar10 200; * is allowed."""
    methods: tuple[str, ...] = ()
    """Methods to keep, each with and without plug-ins; with --fair any methods."""


@Parameter(name="*", group="Comparison")
@dataclass(frozen=True, kw_only=True)
class _Fair:
    streams: tuple[str, ...] = ()
    """Any streams in place of those of the experiment."""
    trials: int = 12
    """Settings that are tried for each row, that of the preset first; 1: nothing is tuned."""
    temperatures: tuple[float, ...] = (0.5, 0.1)
    """Temperatures of the table temperature x plug-in; without a value there is no such table."""


_PART, _FAIR = _Part(), _Fair()


def reproduce_command(
    name: str = "",
    /,
    *,
    fair: bool = False,
    out: Path = Path("runs"),
    part: _Part = _PART,
    own: _Fair = _FAIR,
    comparison: ComparisonOptions = COMPARISON,
    place: Place = PLACE,
    computing: Computing = COMPUTING,
) -> int:
    """Reproduce a table or figure of the paper.

    The published numbers are shown next to the computed ones.

    For example:

    gplasc reproduce digits --methods co2l --seeds 0

    gplasc reproduce table-accuracy --fair --trials 8 --only seq-cifar10 200

    Args:
        name: Name of an experiment (see `gplasc list`).
        fair: Tune every row with the same number of trials on a validation split, then compare on test.
        out: Folder of all runs; tables and figures go into a folder of it.
    """
    from gplasc.paper import is_grid, run_experiment

    given = {**asdict(own), **asdict(comparison)}
    defaults = {**asdict(_FAIR), **asdict(COMPARISON)}
    changed = [option for option, value in given.items() if value != defaults[option]]
    if changed and not fair:
        raise UserError(f"--{changed[0].replace('_', '-')} belongs to a fair comparison; add --fair")
    if not is_grid(name):
        if fair:
            raise UserError(f"{name} is one computation without rows to compare; leave out --fair")
        if part.only or part.methods or len(part.seeds) > 1:
            raise UserError(f"{name} is one computation; it takes one seed, and no --only or --methods")
        run_experiment(name, out / name, seed=part.seeds[0] if part.seeds else 0)
        return 0
    if fair:
        rows = {"experiment": name, **asdict(own)} | {n: value for n, value in asdict(part).items() if value}
        return run_comparison(rows, comparison, out, place, computing)
    from gplasc._io.display import display
    from gplasc.paper.definition import load_experiment
    from gplasc.paper.reproduce import preview, reproduce
    from gplasc.study.study import Study

    experiment = load_experiment(name)
    processes = computing.processes(part.scale, single=experiment.single)
    cells = experiment.cells(part.scale, part.seeds, only=part.only, methods=part.methods)
    study = Study(cells, place.workspace(out))
    if computing.dry_run:
        print(preview(experiment, study, processes))
        return 0
    executor = computing.open(part.scale, single=experiment.single)
    reproduce(experiment, study, executor, display(place.quiet))
    return 1 if study.failures else 0
