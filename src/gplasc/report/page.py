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
    tables: Path | None = None,
    figures: Path | None = None,
) -> Path:
    """Write one page about runs; it carries everything it needs and makes no network requests.

    Args:
        records: Records of complete runs.
        path: File to write.
        title: Heading of the page.
        first: Sections that precede those about the records.
        skipped: Sentences about records that could not be used, for the top of the page.
        tables: Folder for the tables as Markdown, LaTeX and CSV.
        figures: Folder for the figures as SVG and PDF.

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
    if tables is not None:
        _write_blocks(sections, tables, tables=True)
        _write_numbers(panels, tables)
    if figures is not None:
        _write_blocks(sections, figures, tables=False)
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
    for panel in panels:
        for row, record in ((g.labels["row"], r) for g in panel.groups for r in g.records):
            run = (record.run_id, panel.stream, panel.scale, panel.buffer, row, record.seed)
            for scenario, matrix in record.matrix.items():
                metrics += [(*run, scenario, *item) for item in record.metrics[scenario].items()]
                accuracies += [
                    (*run, scenario, after, task, value)
                    for after, row in enumerate(matrix, 1)
                    for task, value in enumerate(row, 1)
                    if value is not None
                ]
    for name, columns, rows in (
        ("metrics", ("metric", "value"), metrics),
        ("matrices", ("after_task", "task", "accuracy"), accuracies),
    ):
        write_atomic(folder / f"{name}.csv", Table("", (*keys, *columns), rows).to_csv())
