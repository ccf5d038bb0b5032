"""The command line. Each command is a small dataclass; what it needs is imported only when it runs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import tyro
from tyro.conf import Positional, UseAppendAction, arg, subcommand

import gplasc
from gplasc.cli_classifier import Export, Features, Info, Learn, Predict
from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.learning.distributed import Processes
    from gplasc.runs.spec import Resolved
    from gplasc.study.executors import Engine

_Names = UseAppendAction[tuple[str, ...]]
_REPEATABLE = ("--plugin", "--set", "--tune-set")
_DEFAULTS = {"stream": "seq-digits", "method": "co2l", "plugins": (), "seed": 0, "scale": "cpu"}
_FAIR = (
    "streams", "buffers", "plugins", "trials", "tune_seeds", "validation", "search_seed", "space", "set", "tune_set",
    "temperatures", "overlap", "summary",
)  # fmt: skip
_INTERRUPTED = "interrupted and saved; run the same command again to continue"


@dataclass
class _Settings:
    """What decides a run's result."""

    stream: str | None = None
    """Name of a stream (see `gplasc list`), folder:PATH or npz:PATH; default: seq-digits."""
    method: str | None = None
    """Name of a method (see `gplasc list`), or the path of a Python file with your own; default: co2l."""
    plugin: _Names = ()
    """Plug-in to add, for example gplasc; may be repeated."""
    encoder: str | None = None
    """Name of an encoder, FILE.py:function or package.module:function; default: that of the preset."""
    frozen: bool = False
    """Do not train the encoder: features are computed once. The same as --set encoder_lr=0."""
    buffer: int | None = None
    """Number of samples the memory holds; default: that of the preset."""
    seed: int | None = None
    """Seed of every random choice; default: 0."""
    scale: Literal["paper", "cpu", "smoke"] | None = None
    """paper: the published protocol; cpu (default): the same code on a budget for two cores; smoke: seconds."""
    config: Path | None = None
    """TOML file with settings, as `gplasc show --toml` prints them."""
    set: Annotated[_Names, arg(metavar="NAME=VALUE")] = ()
    """A single setting, for example train.lr=0.1 or margin=0.2; may be repeated."""

    def resolve(self) -> Resolved:
        """Return the complete settings."""
        from gplasc.runs.spec import resolve

        return resolve(**self.arguments())

    def stated(self) -> frozenset[str]:
        """Return which of the names that every run has were given, on the command line or in the file."""
        from gplasc.settings.parse import read_toml

        said = (self.stream, self.method, self.plugin or None, self.seed, self.scale)
        in_file = frozenset(read_toml(self.config) if self.config else ())
        return in_file | {name for name, value in zip(_DEFAULTS, said, strict=True) if value is not None}

    def arguments(self) -> dict[str, Any]:
        """Return what `gplasc.settings.types.resolve` is to be called with."""
        from gplasc.settings.parse import parse_assignments, read_toml

        given = read_toml(self.config) if self.config else {}
        # What the command line says wins over the file, and the file over the defaults.
        names = {
            "stream": self.stream,
            "method": self.method,
            "plugins": self.plugin or None,
            "buffer": self.buffer,
            "seed": self.seed,
            "scale": self.scale,
        }
        base: dict[str, Any] = {**_DEFAULTS, "buffer": None}
        for name, value in names.items():
            in_file = given.pop(name, base[name])
            base[name] = in_file if value is None else value
        said = parse_assignments(self.set)
        if self.encoder is not None and said.setdefault("model.encoder", self.encoder) != self.encoder:
            raise UserError("--encoder and --set model.encoder name two encoders; give one of them")
        if self.frozen:
            rates = [said.pop(name) for name in ("encoder_lr", "model.encoder_lr") if name in said]
            if any(rate != 0 for rate in rates):
                raise UserError(f"--frozen and --set encoder_lr={rates[0]} disagree; give one of them")
            said["model.encoder_lr"] = 0.0
        return {**base, "settings": given | said}


@dataclass
class _Run(_Settings):
    """Learn a stream task by task and evaluate all tasks after each.

    A run is named by the hash of its settings. Run again, a complete one prints its result; one that was cut off
    continues bit for bit.
    """

    out: Path = Path("runs")
    """Folder of all runs."""
    data_dir: Path | None = None
    """Where data sets are; default: GPLASC_DATA, then the user's cache folder."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    devices: int = 1
    """Processes of this machine that compute the run together, one on each GPU."""
    compile: bool = False
    """Compile the encoder with torch.compile."""
    threads: int | None = None
    """Threads of torch; default: all cores. Results are equal bit for bit only for equal numbers."""
    save_every: float = 60.0
    """Seconds between two checkpoints."""
    save_steps: int | None = None
    """Steps between two checkpoints, beside the seconds."""
    tensorboard: bool = False
    """Also write TensorBoard files."""
    skip_corrupt: bool = False
    """Leave out images that cannot be decoded, and say which."""
    json: bool = False
    """Print the record as one JSON object on the last line of standard output."""
    quiet: bool = False
    """No progress."""
    forget_memory: bool = False
    """Do not keep the memory of the finished run, which is needed to learn further tasks."""
    restart: bool = False
    """Discard what this run has saved so far, its record included, and start over."""
    dry_run: bool = False
    """Only say what the run would cost."""

    def main(self) -> int:
        """Run the command."""
        import torch

        from gplasc.learning.devices import check_device
        from gplasc.learning.distributed import joined

        _check_threads(self.threads)
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        if self.skip_corrupt:  # it decides what is learned, so it is a setting
            self.set = (*self.set, "data.skip_corrupt=true")
        resolved = self.resolve()
        if self.dry_run:
            from gplasc.runs.cost import estimate_cost

            print(estimate_cost(resolved, data_dir=self.data_dir, device=self.device))
            return 0
        with joined(check_device(self.device)) as (processes, device):
            return self._compute(resolved, processes, device)

    def _compute(self, resolved: Resolved, processes: Processes, device: str) -> int:
        """Compute the run; of several processes the first one prints and writes."""
        from gplasc._io.display import display
        from gplasc.errors import Interrupted
        from gplasc.runs.execute import execute, follow
        from gplasc.runs.workspace import Workspace

        workspace = Workspace(
            self.out,
            self.data_dir,
            device,
            save_every=self.save_every,
            save_steps=self.save_steps,
            keep_memory=not self.forget_memory,
            compiled=self.compile,
            tensorboard=self.tensorboard,
        )

        if not processes.first:
            follow(resolved, workspace, processes)
            return 0
        try:
            result = execute(
                resolved,
                workspace,
                processes=processes,
                display=display(self.quiet),
                restart=self.restart,
            )
        except Interrupted:
            print(_INTERRUPTED, file=sys.stderr)
            return 130
        if self.json:
            print(json.dumps(result.record.to_dict()))
        else:
            from gplasc.runs.show import print_run

            print_run(result.record, result.folder)
        return 0


@dataclass
class _Show(_Settings):
    """Print the settings in force and where each comes from, and a method's deviations from its paper.

    `gplasc show der` is short for `gplasc show --method der`.
    """

    name: Positional[str] = ""
    """A method's or a plug-in's name."""
    toml: bool = False
    """Print TOML to be read again with --config."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.runs.show import print_settings
        from gplasc.settings.components import list_plugins

        if self.name in list_plugins():
            self.plugin = (*self.plugin, self.name)
        elif self.name:
            self.method = self.name
        resolved = self.resolve()
        if self.toml:
            print(resolved.config.to_toml(), end="")
        else:
            stated = self.stated()
            said = {name: "given" if name in stated else "default" for name in _DEFAULTS}
            print_settings(resolved.model_copy(update={"sources": resolved.sources | said}))
        return 0


@dataclass
class _List:
    """List methods, plug-ins, streams and experiments."""

    json: bool = False
    """Print one JSON object instead of tables."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.paper import list_experiments
        from gplasc.settings.components import list_methods, list_plugins
        from gplasc.streams.catalog import list_streams

        groups = {
            "methods": list_methods(),
            "plug-ins": list_plugins(),
            "streams": {info.name: f"{info.description} ({info.shape})" for info in list_streams()},
            "experiments": list_experiments(),
        }
        if self.json:
            print(json.dumps(groups))
            return 0
        from rich.console import Console
        from rich.table import Table

        for title, entries in groups.items():
            table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False)
            for name, text in entries.items():
                table.add_row(name, text, style=None)
            Console().print(table, "")
        return 0


@dataclass
class _Many:
    """Where many runs are computed."""

    out: Path = Path("runs")
    """Folder of all runs; tables and figures go into a folder of it."""
    data_dir: Path | None = None
    """Where data sets are; default: GPLASC_DATA, then the user's cache folder."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    workers: int | None = None
    """Runs computed at the same time, in processes; default: 1, but one a core at smoke scale."""
    threads: int | None = None
    """Threads of torch in each run; default: OMP_NUM_THREADS, else the cores divided among the workers; Ray: --cpus."""
    engine: Literal["processes", "ray"] = "processes"
    """What computes the runs: processes of this machine, or a Ray cluster (needs the extra `ray`)."""
    address: str | None = None
    """Ray: address of the cluster; default: RAY_ADDRESS, else the cluster of this machine."""
    cpus: float | None = None
    """Ray: cores of each run; default: 1."""
    gpus: float | None = None
    """Ray: GPUs of each run, for example 1, or 0.5 for two runs on a GPU; default: 0."""
    storage: str | None = None
    """Ray: fsspec address for checkpoints if the nodes share no folder, for example s3://bucket/folder."""
    dry_run: bool = False
    """Only say how many runs there are, how many are complete, and how long the rest takes."""
    quiet: bool = False
    """No progress."""

    def chosen_engine(self) -> Engine:
        """Return what computes the runs."""
        from gplasc.study.executors import Engine

        return Engine(
            self.engine, self.workers, self.threads, self.address, self.cpus, self.gpus, self.storage
        )


@dataclass
class _Reproduce(_Many):
    """Reproduce a table or figure of the paper, beside the published numbers."""

    name: Positional[str] = ""
    """Name of an experiment (see `gplasc list`)."""
    scale: Literal["paper", "cpu", "smoke"] = "cpu"
    """paper: the published protocol; cpu: a budget for two cores; smoke: seconds, on synthetic images."""
    seeds: tuple[int, ...] = ()
    """Seeds; default: five at paper scale, three at cpu scale, one at smoke scale."""
    only: tuple[str, ...] = ()
    """Streams, buffers or rows of the table to keep, for example seq-cifar10 200; * is allowed."""
    methods: tuple[str, ...] = ()
    """Methods to keep, each with and without plug-ins."""
    fair: bool = False
    """Tune every row with the same number of trials on a validation split, then compare on test; see the options below.
    --methods may then name any method, and the default of --seeds is 0 1 2 3 4."""
    streams: tuple[str, ...] = ()
    """Fair: any streams in place of those of the experiment."""
    buffers: tuple[int, ...] = ()
    """Fair: sizes of the memory; default: those of the experiment, or of the preset for a stream that it lacks."""
    plugins: tuple[str, ...] = ()
    """Fair: plug-ins (or paths of Python files), each with every method; default: those of the experiment."""
    trials: int = 12
    """Fair: settings that are tried for each row, that of the preset first; 1: nothing is tuned."""
    tune_seeds: tuple[int, ...] = (1000,)
    """Fair: seeds of the trials."""
    validation: float = 0.2
    """Fair: share of the training samples that trials are evaluated on."""
    search_seed: int = 0
    """Fair: seed of the list of trials."""
    space: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE,...")] = ()
    """Fair: values to search in place of the default, for example temperature=0.1,0.5 train.lr=x0.5,x1,x2 (times the
    preset)."""
    set: Annotated[_Names, arg(metavar="NAME=VALUE")] = ()
    """Fair: a setting of all rows, which is then not searched; may be repeated."""
    tune_set: Annotated[_Names, arg(metavar="NAME=VALUE")] = ()
    """Fair: a setting of the trials alone, for all rows, for example data.images_per_class=1000; may be repeated."""
    temperatures: tuple[float, ...] = (0.5, 0.1)
    """Fair: temperatures of the table temperature x plug-in; without a value there is no such table."""
    overlap: bool = False
    """Fair: measure the overlap of tasks."""
    summary: Path | None = None
    """Fair: a JSON file for the result. Runs that an existing file has numbers of are not computed again; delete it to
    compute everything anew."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.paper import is_grid, run_experiment

        if self.fair:
            return self._fair()
        given = [name for name in _FAIR if getattr(self, name) != getattr(_Reproduce, name)]
        if given:
            raise UserError(f"--{given[0].replace('_', '-')} belongs to a fair comparison; add --fair")
        if not is_grid(self.name):
            if self.only or self.methods or len(self.seeds) > 1:
                raise UserError(
                    f"{self.name} is one computation; it takes one seed, and no --only or --methods"
                )
            run_experiment(self.name, self.out / self.name, seed=self.seeds[0] if self.seeds else 0)
            return 0
        from gplasc.errors import Interrupted
        from gplasc.paper.reproduce import preview, reproduce
        from gplasc.study.overview import open_overview

        names = ("scale", "seeds", "only", "methods", "out", "data_dir", "device")
        grid: dict[str, Any] = {name: getattr(self, name) for name in names}
        grid["engine"] = self.chosen_engine()
        if self.dry_run:
            print(preview(self.name, **grid))
            return 0
        try:
            done = reproduce(self.name, **grid, overview=open_overview(self.quiet))
        except Interrupted:
            print(_INTERRUPTED, file=sys.stderr)
            return 130
        return 1 if done.failed else 0

    def _fair(self) -> int:
        from gplasc.errors import Interrupted
        from gplasc.paper import is_grid
        from gplasc.paper.fair.compare import compare_fairly, preview_fair
        from gplasc.paper.fair.plan import Protocol
        from gplasc.study.overview import open_overview

        if not is_grid(self.name):
            raise UserError(f"{self.name} is one computation without rows to compare; leave out --fair")
        names = ("scale", "methods", "only", *_FAIR)
        given = {n: getattr(self, n) for n in names if n in Protocol.model_fields}
        protocol = Protocol(experiment=self.name, **given, **({"seeds": self.seeds} if self.seeds else {}))
        place: dict[str, Any] = {name: getattr(self, name) for name in ("out", "data_dir", "device")}
        place["engine"] = self.chosen_engine()
        if self.dry_run:
            print(preview_fair(protocol, **place))
            return 0
        try:
            done = compare_fairly(
                protocol,
                **place,
                overlap=self.overlap,
                summary_file=self.summary,
                overview=open_overview(self.quiet),
            )
        except Interrupted:
            print(_INTERRUPTED, file=sys.stderr)
            return 130
        return 1 if done.failed else 0


@dataclass
class _Sweep(_Settings, _Many):
    """Compute a grid over settings and seeds.

    Complete runs are skipped, runs that were cut off continue, and one that fails does not stop the others.
    """

    grid: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE,...")] = ()
    """Axes of the grid: settings, or stream, method, plugin and buffer; for example margin=0,0.1 train.lr=0.1,0.5."""
    seeds: tuple[int, ...] = ()
    """Seeds of every point; default: that of --seed."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.errors import Interrupted
        from gplasc.settings.parse import parse_assignments
        from gplasc.study.overview import open_overview
        from gplasc.study.sweep import run_sweep

        given = {"stream": self.stream, "method": self.method, "plugins": self.plugin or None}
        given |= {"buffer": self.buffer, "seed": self.seed} | parse_assignments(self.set)
        try:
            return run_sweep(
                self.grid,
                self.seeds,
                self.arguments(),
                fixed={name for name, value in given.items() if value is not None},
                out=self.out,
                data_dir=self.data_dir,
                device=self.device,
                engine=self.chosen_engine(),
                dry_run=self.dry_run,
                overview=open_overview(self.quiet),
            )
        except Interrupted:
            print(_INTERRUPTED, file=sys.stderr)
            return 130


@dataclass
class _Tune(_Settings):
    """Search for the best settings on a validation split, with Optuna (needs the extra `tune`).

    Run again, the command continues the study. It ends with best.toml, to be read with --config, and study.svg.
    """

    trials: int = 20
    """Number of trials in all, those of earlier commands included."""
    out: Path = Path("study")
    """Folder of the study and of its runs."""
    space: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE,...")] = ()
    """Settings and values to search, for example margin=0,0.1 train.lr=0.1,0.5; default: what the paper searched."""
    search_seed: int = 0
    """Seed of the search; --seed is that of every run."""
    workers: int = 1
    """Trials computed at the same time, in processes."""
    storage: str | None = None
    """Address of Optuna's storage, for workers on several machines; default: an SQLite file in --out."""
    data_dir: Path | None = None
    """Where data sets are; default: GPLASC_DATA, then the user's cache folder."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    threads: int | None = None
    """Threads of torch in each process; default: OMP_NUM_THREADS, else the cores divided among the workers."""
    quiet: bool = False
    """No progress."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.errors import Interrupted
        from gplasc.study.processes import default_threads
        from gplasc.study.search import Search
        from gplasc.study.space import given_space, published_space
        from gplasc.study.tune import tune

        _check_threads(self.threads)
        search = Search(
            self.arguments(),
            given_space(self.space) if self.space else published_space(self.resolve().config),
            self.trials,
            self.out,
            self.storage,
            self.search_seed,
            self.data_dir,
            self.device,
            self.threads or default_threads(max(1, self.workers)),
            self.quiet,
        )
        try:
            files = tune(search, self.workers)
        except Interrupted:
            print(_INTERRUPTED, file=sys.stderr)
            return 130
        print(f"written: {', '.join(map(str, files))}")
        return 0


@dataclass
class _Report:
    """Write one page about runs that opens offline, and on demand its tables and figures as files."""

    runs: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Folders of runs; every complete run in or below them is taken."""
    out: Annotated[Path, arg(aliases=["-o"])] = Path("report.html")
    """The page to write."""
    title: str = "Class-incremental learning"
    """Heading of the page."""
    tables: Path | None = None
    """Folder for the tables as Markdown, LaTeX and CSV."""
    figures: Path | None = None
    """Folder for the figures as SVG and PDF."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.report.page import write_report

        for path in write_report(
            self.runs, self.out, title=self.title, tables=self.tables, figures=self.figures
        ):
            print(path)
        return 0


@dataclass
class _Data:
    """Find, download, check or look at data sets."""

    action: Positional[Literal["list", "path", "get", "check", "show"]]
    """list: all of them; path: where one is looked for; get: download it; check: verify it; show: a sheet of images."""
    name: Positional[str] = ""
    """Name of a stream."""
    data_dir: Path | None = None
    """Where data sets are; default: GPLASC_DATA, then the user's cache folder."""
    out: Path | None = None
    """With show: the picture to write."""
    skip_corrupt: bool = False
    """With check: leave out images that cannot be decoded, and say which."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.streams import commands

        if self.action == "list":
            commands.list_data(self.data_dir)
            return 0
        if not self.name:
            raise UserError(f"gplasc data {self.action} needs the name of a stream; see `gplasc data list`")
        if self.action == "path":
            commands.data_path(self.name, self.data_dir)
        elif self.action == "get":
            commands.get_data(self.name, self.data_dir)
        elif self.action == "show":
            commands.show_data(self.name, self.out or Path(f"{self.name}.png"), self.data_dir)
        else:
            return 0 if commands.check_data(self.name, self.data_dir, skip_corrupt=self.skip_corrupt) else 1
        return 0


@dataclass
class _Check:
    """Check that a method or a plug-in keeps the rules: reproducible, resumable, within its memory, finite.

    Learns small synthetic streams; exits with 0 if all is well and 1 if not. A method is checked alone and with each
    plug-in, a plug-in with a contrastive method, with one that replays and with one that never forwards its memory.
    """

    name: Positional[str]
    """Path of a Python file with your own method or plug-in, or the name of one."""
    plugin: _Names = ("gplasc",)
    """Plug-in to check a method with; may be repeated."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.conformance import check_component

        table, passed = check_component(self.name, tuple(dict.fromkeys(self.plugin)))
        table.print()
        return 0 if passed else 1


_Command = (
    Annotated[_Run, subcommand("run")]
    | Annotated[_Sweep, subcommand("sweep")]
    | Annotated[_Tune, subcommand("tune")]
    | Annotated[_Reproduce, subcommand("reproduce")]
    | Annotated[_Report, subcommand("report")]
    | Annotated[_Show, subcommand("show")]
    | Annotated[_List, subcommand("list")]
    | Annotated[_Data, subcommand("data")]
    | Annotated[_Check, subcommand("check")]
    | Annotated[Learn, subcommand("learn")]
    | Annotated[Predict, subcommand("predict")]
    | Annotated[Info, subcommand("info")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Features, subcommand("features")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run ``gplasc``; exit with 0 when done, 2 for the user's mistake, 130 when interrupted."""
    warnings.showwarning = lambda message, *_: print(f"gplasc: note: {message}", file=sys.stderr)
    words = sys.argv[1:] if arguments is None else arguments
    if words == ["--version"]:
        print(f"gplasc {gplasc.__version__}")
        sys.exit(0)
    try:
        command = _parse(words)
        code = (
            _launch(command, words) if isinstance(command, _Run) and command.devices != 1 else command.main()
        )
    except UserError as error:
        print(f"gplasc: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("gplasc: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        reason = str(error).partition("\n")[0][:300]
        print(
            f"gplasc: unexpected {type(error).__name__}: {reason} (the trace is in {_save_trace()}; "
            "please report it)",
            file=sys.stderr,
        )
        code = 1
    sys.exit(code)


def _parse(words: list[str]) -> Any:
    """Return the command that the words ask for."""
    _refuse_repetitions(words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                _Command,
                prog="gplasc",
                description="Class-incremental learning with contrastive and replay methods; GPLASC for all of them. "
                "`gplasc --version` prints the version.",
                args=words,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as end:
        if end.code != 2:
            raise
    from gplasc.cli_refusals import explain, flatten_box

    commands = {name.name: command for command, name in map(get_args, get_args(_Command))}
    raise UserError(explain(words, commands) or flatten_box(said.getvalue()))


def _launch(command: _Run, words: list[str]) -> int:
    """Start the processes of a run, or do the share of one of them."""
    from gplasc.learning.distributed import launched
    from gplasc.learning.launch import launch

    if command.devices < 1:
        raise UserError(f"--devices is {command.devices}; give 1 or more")
    return command.main() if launched() or command.dry_run else launch(words, command.devices)


def _refuse_repetitions(words: list[str]) -> None:
    """Refuse an option that is given twice: the parser would silently drop the first."""
    names = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]
    names += ["--out" for word in words if word.partition("=")[0] == "-o"]
    for name in names:
        if names.count(name) > 1 and name not in _REPEATABLE:
            raise UserError(f"{name} is given {names.count(name)} times; give it once")


def _check_threads(threads: int | None) -> None:
    if threads is not None and threads < 1:
        raise UserError(f"--threads is {threads}; give 1 or more, or leave it out")


def _save_trace() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="gplasc-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return file.name


if __name__ == "__main__":
    main()
