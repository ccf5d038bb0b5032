"""An experiment from its runs to its tables and figures: compute what is missing, measure, compare, draw, write."""

from __future__ import annotations

from pathlib import Path

from gplasc._io.display import Display
from gplasc.paper.views import VIEWS
from gplasc.study.cell import Executor
from gplasc.study.compute import print_failures
from gplasc.study.experiment import Experiment, scale_statement
from gplasc.study.processes import Processes
from gplasc.study.study import Study
from gplasc.study.tables import result_tables, write_tables


def preview(experiment: Experiment, study: Study, processes: Processes) -> str:
    """Return how many runs the experiment has, how many are complete, and how long the rest takes."""
    return f"{_heading(experiment, study)}\n{study.forecast(processes)}"


def reproduce(
    experiment: Experiment,
    study: Study,
    executor: Executor,
    display: Display | None = None,
) -> list[Path]:
    """Compute an experiment's runs, print its tables, and write tables and figures into ``out/NAME``.

    Runs that failed leave gaps in the tables and are listed below them.

    Args:
        experiment: The experiment.
        study: Its runs, see `Experiment.cells`.
        executor: What computes them.
        display: Shows the progress.

    Returns:
        The files.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    view = VIEWS[experiment.view]()
    if display is not None:
        display.say(_heading(experiment, study))
    study.compute(executor, display)
    measures = view.measure(experiment, study)
    statement = scale_statement(study.cells)
    notes = (*experiment.notes, *view.remarks)
    experiment = experiment.model_copy(update={"statement": statement, "notes": notes})
    groups, folder = study.groups(), study.workspace.out / experiment.name
    tables = result_tables(experiment, groups, measures)
    files = [
        *write_tables(folder, experiment, groups, measures, tables),
        *view.draw(experiment, groups, measures, folder),
    ]
    for table in tables:
        table.print()
    print_failures(study.failures)
    print(f"written: {', '.join(str(path) for path in files)}")
    return files


def _heading(experiment: Experiment, study: Study) -> str:
    return f"{experiment.name}: {experiment.title}\n{scale_statement(study.cells)}"
