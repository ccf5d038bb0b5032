"""One experiment from beginning to end: expand the grid, compute what is missing, measure, compare, draw, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gplasc.config import Scale
from gplasc.experiments.grid import Cell, expand, load_experiment
from gplasc.experiments.summary import Entry, scale_statement, summarize_cells
from gplasc.experiments.tables import print_tables, write_tables
from gplasc.experiments.views import find_view
from gplasc.report.style import require
from gplasc.restore import Restored, restore
from gplasc.streams import Stream
from gplasc.sweep.forecast import forecast
from gplasc.sweep.job import Executor, Job, Outcome
from gplasc.sweep.overview import Overview, print_failures
from gplasc.sweep.processes import Processes
from gplasc.sweep.sweep import sweep


@dataclass(frozen=True)
class Reproduced:
    """The result of an experiment: cells of its table, files written, and runs that failed."""

    entries: list[Entry]
    files: list[Path]
    failed: list[Outcome]


def jobs_of(cells: Sequence[Cell], out: Path, data_dir: Path | None, device: str | None) -> list[Job]:
    """Return the job of each cell."""
    return [
        Job(cell.resolved, out, row=cell.row.name, column=cell.column, data_dir=data_dir, device=device)
        for cell in cells
    ]


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
    workers: int = 1,
) -> str:
    """Say how many runs the experiment has, how many are there, and how long the rest takes; nothing is written."""
    experiment = load_experiment(name)
    cells = expand(experiment, scale, seeds, only=only, methods=methods)
    found = forecast(jobs_of(cells, out, data_dir, device))
    workers = 1 if experiment.single else workers
    return f"{name}: {experiment.title}\n{scale_statement(scale, cells)}\n{found.text(workers)}"


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
    workers: int = 1,
    threads: int | None = None,
    overview: Overview | None = None,
    executor: Executor | None = None,
) -> Reproduced:
    """Compute an experiment's runs in ``out``, print its table and write table and figures into ``out/NAME``.

    Runs that failed leave gaps in the table and are listed under it.
    """
    experiment = load_experiment(name)
    cells = expand(experiment, scale, seeds, only=only, methods=methods)
    statement = scale_statement(scale, cells)
    view = find_view(experiment.view)
    if view.draws:
        require("matplotlib")
    if overview is not None:
        overview.say(f"{name}: {experiment.title}\n{statement}")
    executor = executor or Processes(1 if experiment.single else workers, threads)
    outcomes = sweep(jobs_of(cells, out, data_dir, device), executor, overview)
    records = {run: o.record for run, o in outcomes.items() if o.record is not None}
    streams: dict[tuple[object, ...], Stream] = {}

    def open_run(cell: Cell) -> Restored:
        config = cell.resolved.config
        key = (config.stream, config.data)  # rows mostly share the stream; it is opened once
        run = restore(out / cell.run_id, data_dir=data_dir, device=device, stream=streams.get(key))
        streams[key] = run.stream
        return run

    values = view.measure(experiment, cells, records, open_run)
    experiment = experiment.model_copy(update={"notes": (*experiment.notes, *view.remarks())})
    entries = summarize_cells(experiment, cells, values)
    folder = out / name
    files = [
        *write_tables(experiment, entries, statement, folder),
        *view.draw(experiment, entries, statement, folder),
    ]
    print_tables(experiment, entries, statement)
    failed = [outcome for outcome in outcomes.values() if outcome.state == "failed"]
    print_failures(failed)
    print(f"written: {', '.join(str(path) for path in files)}")
    return Reproduced(entries, files, failed)
