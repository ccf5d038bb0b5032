"""Option groups that several commands share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from gplasc.errors import UserError
from gplasc.study.executors import Engine

if TYPE_CHECKING:
    from gplasc.runs.spec import RunSpec
    from gplasc.runs.workspace import Workspace

Scale = Literal["paper", "cpu", "smoke"]
Names = Annotated[tuple[str, ...], Parameter(allow_repeating=True, consume_multiple=False)]
Assignments = Annotated[Names, Parameter(metavar="NAME=VALUE")]
Axes = Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE,...")]
DEFAULTS = {"stream": "seq-digits", "method": "co2l", "plugins": (), "seed": 0, "scale": "cpu"}


@Parameter(name="*", group=Group("Run", sort_key=0))
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options that decide the result of a run."""

    stream: str | None = None
    """Name of a stream (see `gplasc list`), folder:PATH or npz:PATH; default: seq-digits."""
    method: str | None = None
    """Name of a method (see `gplasc list`), or the path of a Python file with your own; default: co2l."""
    plugin: Names = ()
    """Plug-in to add, for example gplasc; may be repeated."""
    encoder: str | None = None
    """Name of an encoder, FILE.py:function or package.module:function; default: that of the preset."""
    frozen: bool = False
    """Do not train the encoder: features are computed once. The same as --set encoder_lr=0."""
    buffer: int | None = None
    """Number of samples in the memory; default: that of the preset."""
    seed: int | None = None
    """Seed of every random choice; default: 0."""
    scale: Scale | None = None
    """paper: the published protocol; cpu (default): the same code on a budget for two cores; smoke: seconds."""
    config: Path | None = None
    """TOML file with settings, as `gplasc show --toml` prints them."""
    set: Assignments = ()
    """A single setting, for example train.lr=0.1 or margin=0.2; may be repeated."""

    def resolve(self) -> RunSpec:
        """Return the complete settings."""
        from gplasc.runs.spec import RunRequest

        return RunRequest(**self.arguments()).resolve()

    def named(self) -> dict[str, Any]:
        """Return the options that name something, None for those that were not given."""
        names = ("stream", "method", "seed", "scale", "buffer")
        return {"plugins": self.plugin or None} | {name: getattr(self, name) for name in names}

    def stated(self) -> frozenset[str]:
        """Return the names that were given on the command line or in the file."""
        from gplasc.settings.parse import read_toml

        in_file = frozenset(read_toml(self.config) if self.config else ())
        return in_file | {name for name, value in self.named().items() if value is not None}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `gplasc.runs.spec.RunRequest`.

        The command line takes precedence over the file, and the file over the defaults.
        """
        from gplasc.settings.parse import parse_assignments, read_toml

        in_file = read_toml(self.config) if self.config else {}
        base: dict[str, Any] = {**DEFAULTS, "buffer": None}
        for name, value in self.named().items():
            other = in_file.pop(name, base[name])
            base[name] = other if value is None else value
        given = parse_assignments(self.set)
        if self.encoder is not None and given.setdefault("model.encoder", self.encoder) != self.encoder:
            raise UserError("--encoder and --set model.encoder name two encoders; give one of them")
        if self.frozen:
            rates = [given.pop(name) for name in ("encoder_lr", "model.encoder_lr") if name in given]
            if any(rate != 0 for rate in rates):
                raise UserError(f"--frozen and --set encoder_lr={rates[0]} disagree; give one of them")
            given["model.encoder_lr"] = 0.0
        return {**base, "settings": in_file | given}


@Parameter(name="*", group="Place")
@dataclass(frozen=True, kw_only=True)
class Place:
    """Where data sets are read and where is computed."""

    data_dir: Path | None = None
    """Folder of data sets; default: GPLASC_DATA, then the user's cache folder."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    quiet: bool = False
    """No progress."""

    def workspace(self, out: Path) -> Workspace:
        """Return where runs in this folder are computed."""
        from gplasc.runs.workspace import Workspace

        return Workspace(out, self.data_dir, self.device)


@Parameter(name="*", group="Computing")
@dataclass(frozen=True, kw_only=True)
class Computing(Engine):
    """What computes many runs."""

    dry_run: bool = False
    """Only print how many runs there are, how many are complete, and how long the rest takes."""


@Parameter(name="*", group="Comparison")
@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """The options of a comparison in which every row is tuned with the same number of trials."""

    buffers: tuple[int, ...] = ()
    """Sizes of the memory; default: those of the experiment, or of the preset."""
    plugins: tuple[str, ...] = ()
    """Plug-ins (or paths of Python files), each with every method."""
    tune_seeds: tuple[int, ...] = (1000,)
    """Seeds of the trials."""
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


@dataclass(frozen=True)
class Launch:
    """What `run` returns in place of an exit code: start the command in this many processes."""

    processes: int


RUN, PLACE, COMPUTING, COMPARISON = RunOptions(), Place(), Computing(), ComparisonOptions()


def set_threads(threads: int | None) -> None:
    """Set the number of torch's threads in this process; None leaves it as it is."""
    if threads is None:
        return
    if threads < 1:
        raise UserError(f"--threads is {threads}; give 1 or more, or leave it out")
    import torch

    torch.set_num_threads(threads)


def run_comparison(
    rows: dict[str, Any],
    comparison: ComparisonOptions,
    out: Path,
    place: Place,
    computing: Computing,
) -> int:
    """Compute a comparison and return the exit code.

    Args:
        rows: What is compared: streams, methods, seeds, scale, trials, and the experiment if it has a name.
        comparison: How it is compared.
        out: Folder of all runs.
        place: Where it is computed.
        computing: What computes the runs.
    """
    from gplasc._io.display import display
    from gplasc.paper.definition import load_experiment
    from gplasc.study.compare import compare_rows, methods_alone, preview_rows, print_comparison
    from gplasc.study.plan import ComparePlan

    shared = {name: value for name, value in asdict(comparison).items() if name in ComparePlan.model_fields}
    plan = ComparePlan(**(shared | rows))
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
        summary=comparison.summary,
        overlap=comparison.overlap,
        display=display(place.quiet),
    )
    return print_comparison(*compared)
