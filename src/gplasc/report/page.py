"""One self-contained HTML page about runs, and its tables and figures as files of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Table
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.findings import find_findings, headline
from gplasc.report.panels import Panel, make_panels
from gplasc.report.render import render
from gplasc.report.section import Section
from gplasc.report.sections import build_sections
from gplasc.results.record import Record, load_records


def build_report(
    records: Sequence[Record],
    path: Path,
    *,
    title: str = "Class-incremental learning",
    first: Sequence[Section] = (),
    skipped: Sequence[str] = (),
) -> Path:
    """Write one page about runs; it carries everything it needs and makes no network requests.

    Args:
        records: Records of complete runs.
        path: File to write.
        title: Heading of the page.
        first: Sections that precede those about the records.
        skipped: Sentences about records that could not be used, for the top of the page.

    Returns:
        The path.

    Raises:
        UserError: If there is nothing to show, or the path is a folder.
    """
    if not records and not first:
        raise UserError("there is no complete run to report on; run some, or name a folder that holds them")
    if path.is_dir():
        raise UserError(
            f"{path} is a folder; give the name of the page to write, for example {path / 'report.html'}"
        )
    panels = make_panels(records)
    sections = build_sections(panels) if panels else []
    if len(panels) == 1:  # the top of the page names it
        sections = [_without_heading(section, panels[0].title) for section in sections]
    warnings = list(dict.fromkeys(note for panel in panels for note in panel.scale_notes))
    if skipped:
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        warnings.append(f"Not on this page: {'; '.join(skipped[:3])}{more}.")
    page = render(
        title, headline(panels), [*first, *sections], findings=find_findings(panels), warnings=warnings
    )
    return write_atomic(path, page)


def _without_heading(section: Section, title: str) -> Section:
    """Return the section without this heading of unfolded subsections."""
    parts = (replace(p, title="") if p.title == title and not p.folded else p for p in section.parts)
    return replace(section, parts=tuple(parts))


def write_report(
    folders: Sequence[Path],
    path: Path,
    *,
    title: str = "Class-incremental learning",
    tables: Path | None = None,
    figures: Path | None = None,
) -> list[Path]:
    """Report on all complete runs in folders; records that cannot be used are named on standard error and skipped.

    Runs that were evaluated on a validation split, as trials of a search are, are left out if there are others.

    Args:
        folders: Where to look for runs.
        path: The page to write.
        title: Heading of the page.
        tables: Folder for the tables as Markdown, LaTeX and CSV.
        figures: Folder for the figures as SVG and PDF.

    Returns:
        The page and the folders that were written.

    Raises:
        UserError: If a folder does not exist or holds no complete run, or a path cannot be written.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}; give the folder that `gplasc run --out` wrote to")
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
    written = [build_report(records, path, title=title, skipped=skipped)]
    panels = make_panels(records) if tables or figures else []
    sections = build_sections(panels) if panels else []
    if tables is not None:
        write_tables(sections, tables)
        write_atomic(tables / "metrics.csv", _metrics_table(panels).to_csv())
        write_atomic(tables / "matrices.csv", _matrices_table(panels).to_csv())
        written.append(tables)
    if figures is not None:
        write_figures(sections, figures)
        written.append(figures)
    return written


def write_tables(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write every named table as Markdown, LaTeX and CSV, in a folder for each panel; return the paths."""
    paths = []
    for part in (part for section in sections for part in section.all_parts()):
        for table in part.blocks:
            if isinstance(table, Table) and table.name:
                title = f"{table.title}: {part.title}" if part.folder else table.title
                paths += replace(table, title=title).write(folder / part.folder / table.name)
    return paths


def write_figures(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write every named figure as SVG and PDF, in a folder for each panel; return the paths."""
    return [
        path
        for section in sections
        for part in section.all_parts()
        for block in part.blocks
        if block.name and not isinstance(block, Table)
        for path in block.write(folder / part.folder / block.name)
    ]


_KEYS = ("run", "stream", "scale", "buffer", "method", "seed", "scenario")


def _metrics_table(panels: Sequence[Panel]) -> Table:
    """Return every metric of every run: one row for each run, scenario and metric."""
    rows = [
        (*keys, metric, value)
        for keys, record in _scenarios(panels)
        for metric, value in record.metrics[keys[-1]].items()
    ]
    return Table("Metrics", (*_KEYS, "metric", "value"), rows)


def _matrices_table(panels: Sequence[Panel]) -> Table:
    """Return every accuracy: one row for each run, scenario, tasks learned and task, counted from 1."""
    rows = [
        (*keys, after, task, value)
        for keys, record in _scenarios(panels)
        for after, row in enumerate(record["matrix"][keys[-1]], 1)
        for task, value in enumerate(row, 1)
        if value is not None
    ]
    return Table("Accuracies", (*_KEYS, "after_task", "task", "accuracy"), rows)


def _scenarios(panels: Sequence[Panel]) -> Iterator[tuple[tuple[Any, ...], Record]]:
    """The values of `_KEYS` for each run and scenario, with the run's record."""
    for panel in panels:
        for group in panel.groups:
            for record in group.records:
                where = (record.run_id, panel.stream, panel.scale, panel.buffer, group.labels["row"])
                for scenario in SCENARIOS:
                    yield (*where, record.seed, scenario), record
