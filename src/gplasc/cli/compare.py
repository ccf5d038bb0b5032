"""Commands ``compare`` and ``reproduce``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from gplasc.cli._options import Assignments, Axes, Computing, Place, Scale
from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.study.plan import ComparePlan


@Parameter(name="*", group="Comparison")
@dataclass(frozen=True, kw_only=True)
class _Comparison:
    buffers: tuple[int, ...] = ()
    """Sizes of the memory; default: those of the experiment, or of the preset."""
    plugins: tuple[str, ...] = ()
    """Plug-ins (or paths of Python files), each with every method."""
    like: str | None = None
    """Built-in method whose presets methods of your own take; default: those that their classes name."""
    tune_seeds: tuple[int, ...] = (1000, 1001, 1002)
    """Seeds of the trials; as many more choose between two bases."""
    validation: float = 0.2
    """Share of the training samples that trials are evaluated on."""
    search_seed: int = 0
    """Seed of the list of trials."""
    space: Axes = ()
    """Values to search in place of the default, such as temperature=0.1,0.5 train.lr=x0.5,x1,x2 (times the preset)."""
    set: Assignments = ()
    """A setting of all rows, which is then not searched; may be repeated."""
    tune_set: Assignments = ()
    """A setting of the trials alone, for all rows, for example data.images_per_class=1000; may be repeated."""
    overlap: bool = False
    """Measure the overlap of tasks."""
    summary: Path | None = None
    """JSON file for the result. Results stored in this file are reused; delete it to compute everything again."""

    def planned(self, rows: dict[str, Any]) -> ComparePlan:
        """Return the plan that these options describe, with the rows that are compared."""
        from gplasc.study.plan import ComparePlan

        shared = {name: value for name, value in asdict(self).items() if name in ComparePlan.model_fields}
        return ComparePlan(**(shared | rows))

    def compute(self, plan: ComparePlan, out: Path, place: Place, computing: Computing) -> int:
        """Compute a comparison and return the exit code."""
        from gplasc._io.display import display
        from gplasc.paper import load_experiment
        from gplasc.study.compare import compare_rows, methods_alone, preview_rows, print_comparison

        experiment = load_experiment(plan.experiment) if plan.experiment else methods_alone(plan)
        processes, workspace = computing.processes(plan.scale), place.workspace(out)
        if computing.dry_run:
            print(preview_rows(plan, experiment, workspace, processes))
            return 0
        compared = compare_rows(
            plan,
            experiment,
            workspace,
            lambda: computing.open(plan.scale),
            summary=self.summary,
            overlap=self.overlap,
            display=display(place.quiet),
        )
        return print_comparison(*compared)


def _compare(
    *,
    stream: str = "seq-digits",
    methods: tuple[str, ...] = ("co2l",),
    seeds: tuple[int, ...] = (0, 1, 2),
    tune: int | None = None,
    scale: Scale = "cpu",
    plan: Path | None = None,
    out: Path = Path("runs"),
    comparison: _Comparison = _Comparison(),
    place: Place = Place(),
    computing: Computing = Computing(),
) -> int:
    """Compare methods with and without plug-ins on a stream.

    All rows have the same seeds and, with --tune, the same number of trials over the same shared settings. A gain is
    the difference to the better of two bases: as it was tuned, and with the settings of the row.

    For example:
    gplasc compare --stream seq-digits --methods co2l er --plugins gplasc gplasc-plus --seeds 0 1 2
    gplasc compare --stream seq-fashion --methods co2l --plugins gplasc --tune 8
    gplasc compare --plan results/plans/small-streams.toml

    Args:
        stream: Name of a stream (see `gplasc list`), folder:PATH or npz:PATH.
        methods: Names of methods, or paths of Python files with your own.
        seeds: Seeds of the runs on test.
        tune: Trials that every row is tuned with, on a validation split; without it the presets are used.
        scale: paper: the published protocol; cpu: a budget for two cores; smoke: seconds.
        plan: TOML file that says what is compared, in place of these options; it is committed before the runs.
        out: Folder of all runs; the tables go into a folder of it.
    """
    if plan is None:
        trials = 1 if tune is None else tune
        rows = {"streams": (stream,), "methods": methods, "seeds": seeds, "trials": trials, "scale": scale}
        return comparison.compute(comparison.planned(rows), out, place, computing)
    from gplasc.study.plan import ComparePlan

    given = (stream, methods, seeds, tune, scale, replace(comparison, overlap=False, summary=None))
    if given != ("seq-digits", ("co2l",), (0, 1, 2), None, "cpu", _Comparison()):
        raise UserError(
            f"--plan {plan} says what is compared; leave out the other options, or change the file"
        )
    return comparison.compute(ComparePlan.read(plan), out, place, computing)


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
class _Fair(_Comparison):
    streams: tuple[str, ...] = ()
    """Any streams in place of those of the experiment."""
    trials: int = 12
    """Settings that are tried for each row, that of the preset first; 1: nothing is tuned."""


def _reproduce(
    name: str = "",
    /,
    *,
    fair: bool = False,
    out: Path = Path("runs"),
    part: _Part = _Part(),
    comparison: _Fair = _Fair(),
    place: Place = Place(),
    computing: Computing = Computing(),
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
    from gplasc.paper import is_grid, load_experiment, run_experiment

    changed = [f.name for f in fields(comparison) if getattr(comparison, f.name) != f.default]
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
        chosen = {option: value for option, value in asdict(part).items() if value}
        return comparison.compute(comparison.planned({"experiment": name} | chosen), out, place, computing)
    from gplasc._io.display import display
    from gplasc.paper.reproduce import reproduce
    from gplasc.study.study import Study

    experiment = load_experiment(name)
    processes = computing.processes(part.scale, single=experiment.single)
    cells = experiment.cells(part.scale, part.seeds, only=part.only, methods=part.methods)
    study = Study(cells, place.workspace(out))
    if computing.dry_run:
        print(experiment.heading(study.cells), study.forecast(processes), sep="\n")
        return 0
    executor = computing.open(part.scale, single=experiment.single)
    reproduce(experiment, study, executor, display(place.quiet))
    return 1 if study.failures else 0
