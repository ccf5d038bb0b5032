"""An experiment from its runs to its tables and figures: compute what is missing, measure, compare, draw, write."""

from __future__ import annotations

from pathlib import Path

from gplasc._io.display import Display
from gplasc.paper.views import VIEWS
from gplasc.study.cell import Executor
from gplasc.study.compute import print_failures
from gplasc.study.experiment import Experiment, scale_statement
from gplasc.study.study import Study
from gplasc.study.tables import result_tables, write_tables


def reproduce(
    experiment: Experiment, study: Study, executor: Executor, display: Display | None = None
) -> list[Path]:
    """Compute an experiment's runs, print its tables, and write tables and figures into ``out/NAME``.

    The study has the runs of `Experiment.cells`, or of some of them; those that failed leave gaps in the tables.
    """
    if display is not None:
        display.say(experiment.heading(study.cells))
    study.compute(executor, display)
    view = VIEWS[experiment.view](experiment, study)
    statement, notes = scale_statement(study.cells), (*experiment.notes, *view.remarks)
    caption = experiment.model_copy(update={"statement": statement, "notes": notes})
    groups, folder = study.groups(), study.workspace.out / experiment.name
    tables = result_tables(caption, groups, view.measures)
    files = [
        *write_tables(folder, caption, groups, view.measures, tables),
        *view.draw(groups, statement, folder),
    ]
    for table in tables:
        table.print()
    print_failures(study.failures)
    print(f"written: {', '.join(map(str, files))}")
    return files
