"""One experiment from beginning to end: plan its runs, compute what is missing, measure, compare, draw, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gplasc._io.display import Display
from gplasc.paper.definition import PlannedRun, load_experiment, plan_runs
from gplasc.paper.summary import Entry, scale_statement, summarize_runs
from gplasc.paper.tables import save_tables, stream_tables
from gplasc.paper.views import find_view
from gplasc.runs.restore import Restored, restore
from gplasc.runs.spec import identify_all
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Scale
from gplasc.streams import Stream
from gplasc.study.cell import Cell, Executor, Outcome
from gplasc.study.compute import compute, print_failures
from gplasc.study.executors import Engine
from gplasc.study.forecast import forecast


@dataclass(frozen=True)
class Reproduced:
    """The result of an experiment: cells of its tables, files written, and runs that failed."""

    entries: list[Entry]
    files: list[Path]
    failed: list[Outcome]


def preview(
    name: str,
    *,
    scale: Scale = "cpu",
    seeds: Sequence[int] = (),
    only: Sequence[str] = (),
    methods: Sequence[str] = (),
    out: Path = Path("runs"),
    data_dir: Path | None = None,
    device: str | None = None,
    engine: Engine | None = None,
) -> str:
    """Return how many runs the experiment has, how many are complete, and how long the rest takes.

    Nothing is written. See `reproduce` for the arguments.
    """
    experiment = load_experiment(name)
    engine = engine or Engine()
    processes = engine.processes(scale, single=experiment.single)
    runs = identified(plan_runs(experiment, scale, seeds, only=only, methods=methods), data_dir)
    found = forecast(cells_of(runs), Workspace(out, data_dir, device), threads=processes.threads)
    return f"{name}: {experiment.title}\n{scale_statement(scale, runs)}\n{found.text(processes.workers)}"


def reproduce(
    name: str,
    *,
    scale: Scale = "cpu",
    seeds: Sequence[int] = (),
    only: Sequence[str] = (),
    methods: Sequence[str] = (),
    out: Path = Path("runs"),
    data_dir: Path | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    display: Display | None = None,
    executor: Executor | None = None,
) -> Reproduced:
    """Compute an experiment's runs, print its tables, and write tables and figures into ``out/NAME``.

    Runs that failed leave gaps in the tables and are listed below them.

    Args:
        name: Name of the experiment.
        scale: Scale of all runs.
        seeds: Seeds; default: those of the scale.
        only: Streams, buffers or rows to keep.
        methods: Methods to keep.
        out: Folder of all runs.
        data_dir: Where data sets are.
        device: Where to compute.
        engine: What computes the runs; default: processes of this machine.
        display: Shows the progress.
        executor: Computes the runs in place of the engine.

    Returns:
        The cells of the tables, the files and the runs that failed.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    experiment = load_experiment(name)
    engine = engine or Engine()
    engine.processes(scale, single=experiment.single)  # refuses options that do not fit
    runs = identified(plan_runs(experiment, scale, seeds, only=only, methods=methods), data_dir)
    statement = scale_statement(scale, runs)
    view = find_view(experiment.view)
    executor = executor or engine.open(scale, single=experiment.single)
    if display is not None:
        display.say(f"{name}: {experiment.title}\n{statement}")
    results = compute(cells_of(runs), Workspace(out, data_dir, device), executor, display)
    records = {run: result.record for run, result in results.items() if result.record is not None}
    streams: dict[tuple[object, ...], Stream] = {}

    def open_run(run: PlannedRun) -> Restored:
        config = run.resolved.config
        key = (config.stream, config.data)  # rows mostly share the stream; it is opened once
        restored = restore(out / run.run_id, data_dir=data_dir, device=device, stream=streams.get(key))
        streams[key] = restored.stream
        return restored

    values = view.measure(experiment, runs, records, open_run)
    experiment = experiment.model_copy(update={"notes": (*experiment.notes, *view.remarks())})
    entries = summarize_runs(experiment, runs, values)
    tables = stream_tables(experiment, entries, statement)
    folder = out / name
    files = [
        *save_tables(experiment, entries, tables, folder),
        *view.draw(experiment, entries, statement, folder),
    ]
    for table in tables:
        table.print()
    failed = [result for result in results.values() if result.state == "failed"]
    print_failures(failed)
    print(f"written: {', '.join(str(path) for path in files)}")
    return Reproduced(entries, files, failed)


def cells_of(runs: Sequence[PlannedRun]) -> list[Cell]:
    """Return the cell of each run."""
    return [
        Cell(
            {"row": run.row.name, "stream": run.stream}
            | ({} if run.buffer is None else {"buffer": run.buffer}),
            run.resolved,
        )
        for run in runs
    ]


def identified(runs: Sequence[PlannedRun], data_dir: Path | None) -> list[PlannedRun]:
    """Return the runs with the digest of their data, so that the run ids cover it."""
    resolved = identify_all([run.resolved for run in runs], data_dir=data_dir)
    return [replace(run, resolved=one) for run, one in zip(runs, resolved, strict=True)]
