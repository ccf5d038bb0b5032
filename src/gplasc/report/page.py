"""One self-contained HTML page about runs, and its tables and figures as files of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Table
from gplasc.errors import UserError
from gplasc.report.findings import find_findings, headline
from gplasc.report.panels import Panel, make_panels
from gplasc.report.render import Section, render
from gplasc.report.sections.accuracy import accuracy_by_task, forgetting, matrices, settings_effect
from gplasc.report.sections.geometry import geometry
from gplasc.report.sections.provenance import provenance, time
from gplasc.report.sections.summary import against_paper, summary
from gplasc.results.group import group_records
from gplasc.results.record import Record, load_records


def build_report(
    records: Sequence[Record],
    path: Path,
    *,
    title: str = "Class-incremental learning",
    first: Sequence[Section] = (),
    skipped: Sequence[str] = (),
    tables: Path | None = None,
    figures: Path | None = None,
) -> Path:
    """Write one page about complete runs, after the given sections; it is self-contained and needs no network.

    The sentences of `skipped` are shown at its top. Its tables and figures are also written into the folders given.
    """
    if not records and not first:
        raise UserError("there is no complete run to report on; run some, or name a folder that holds them")
    if path.is_dir():
        raise UserError(
            f"{path} is a folder; give the name of the page to write, for example {path / 'report.html'}"
        )
    panels = make_panels(records)
    skipped = [*skipped, *group_records(records)[1]]
    sections = _build_sections(panels) if panels else []
    if tables is not None:
        _write_blocks(sections, tables, tables=True)
        _write_numbers(panels, tables)
    if figures is not None:
        _write_blocks(sections, figures, tables=False)
    warnings = list(dict.fromkeys(note for panel in panels for note in panel.scale_notes))
    if skipped:
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        warnings.append(f"Not on this page: {'; '.join(skipped[:3])}{more}.")
    page = render(
        title,
        headline(panels),
        [*first, *sections],
        findings=find_findings(panels),
        warnings=warnings,
        subject=panels[0].title if len(panels) == 1 else "",
    )
    return write_atomic(path, page)


def _build_sections(panels: Sequence[Panel]) -> list[Section]:
    """Every section that the runs have something to say about, in the order of the page."""
    topics = (summary, against_paper, accuracy_by_task, forgetting, settings_effect, matrices, geometry, time)
    return [*filter(None, (topic(panels) for topic in topics)), *provenance(panels)]


def write_report(
    folders: Sequence[Path],
    path: Path,
    *,
    title: str = "Class-incremental learning",
    tables: Path | None = None,
    figures: Path | None = None,
) -> list[Path]:
    """Report on all complete runs in folders and return what was written, as `build_report` does.

    Records that cannot be used are named on standard error and skipped. Runs that were evaluated on a validation
    split, as trials of a search are, are left out if there are others.
    """
    records, skipped = load_records(folders)
    tested = [record for record in records if record.flat.get("data.evaluate_on") != "validation"]
    if tested and (trials := len(records) - len(tested)):
        skipped.append(f"{trials} runs that were evaluated on a validation split, as trials of a search are")
        records = tested
    for sentence in skipped:
        print(f"skipped: {sentence}", file=sys.stderr)
    if not records:
        names = ", ".join(map(str, folders))
        raise UserError(
            f"there is no complete run in {names}; finish one with `gplasc run`, or name another folder"
        )
    build_report(records, path, title=title, skipped=skipped, tables=tables, figures=figures)
    return [written for written in (path, tables, figures) if written is not None]


def _write_blocks(sections: Sequence[Section], folder: Path, *, tables: bool) -> None:
    """Write every named table, or every named figure, in a folder for each panel."""
    for part in (part for section in sections for part in section.all_parts()):
        for block in part.blocks:
            if block.name and isinstance(block, Table) == tables:
                if isinstance(block, Table) and part.folder:
                    block = replace(block, title=f"{block.title}: {part.title}")
                block.write(folder / part.folder / block.name)


def _write_numbers(panels: Sequence[Panel], folder: Path) -> None:
    """Write every metric of every run, and every accuracy; tasks are counted from 1."""
    keys = ("run", "stream", "scale", "buffer", "method", "seed", "scenario")
    metrics: list[tuple[Any, ...]] = []
    accuracies: list[tuple[Any, ...]] = []
    runs = [(panel, group.labels["row"], record) for panel in panels for group, record in panel.runs]
    for panel, row, record in runs:
        for scenario, matrix in record.matrix.items():
            run = (record.run_id, panel.stream, panel.scale, panel.buffer, row, record.seed, scenario)
            metrics += [(*run, *item) for item in record.metrics[scenario].items()]
            places = ((after, task) for after in range(len(matrix)) for task in range(after + 1))
            accuracies += [(*run, after + 1, task + 1, matrix[after][task]) for after, task in places]
    columns = {"metrics": ("metric", "value"), "matrices": ("after_task", "task", "accuracy")}
    for (name, own), rows in zip(columns.items(), (metrics, accuracies), strict=True):
        write_atomic(folder / f"{name}.csv", Table("", (*keys, *own), rows).to_csv())
