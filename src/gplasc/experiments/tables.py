"""An experiment's result as tables: for the terminal, as Markdown, and as CSV with a line for every cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.experiments.grid import Experiment
from gplasc.experiments.summary import Entry, Measure
from gplasc.files import write_atomic
from gplasc.reference import find_table

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = (
    "experiment",
    "row",
    "stream",
    "buffer",
    "metric",
    "scenario",
    "point",
    "scale",
    "measured_on",
    "mean",
    "std",
    "seeds",
    "base",
    "difference",
    "low",
    "high",
    "pairs",
    "overhead_percent",
    "paper_mean",
    "paper_std",
    "paper_trials",
    "paper_table",
    "gap",
    "reproduction",
    "missing",
    "notes",
    "runs",
)


class Footnotes:
    """Numbers the notes on published numbers in the order in which they are first needed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, notes: Sequence[str]) -> str:
        """Return the marks of notes, such as [1,3]."""
        found = [self._numbers.setdefault(note, len(self._numbers) + 1) for note in notes]
        return f" [{','.join(map(str, found))}]" if found else ""

    def lines(self) -> list[str]:
        """Return all notes with their numbers."""
        return [f"[{number}] {note}" for note, number in self._numbers.items()]


def cell_lines(entry: Entry, notes: Footnotes) -> list[str]:
    """Return what stands in a cell of the table."""
    digits = entry.measure.digits
    lines = []
    if entry.spread.count:
        std = f" ± {entry.spread.std:.{digits}f}" if entry.spread.count > 1 else ""
        lines.append(f"{entry.spread.mean:.{digits}f}{std} (n={entry.spread.count})")
    if entry.missing:
        lines.append(f"{entry.missing} failed")
    if entry.difference is not None:
        found = entry.difference
        interval = f" [{found.low:+.{digits}f}, {found.high:+.{digits}f}]" if found.count > 1 else ""
        lines.append(f"{found.mean:+.{digits}f}{interval} to {entry.base}")
    if entry.overhead is not None:
        lines.append(f"{entry.overhead:+.1f} % time")
    if entry.published is not None:
        lines.append(f"paper {entry.published}{notes.mark(entry.published.notes)}")
        if entry.published_overhead is not None:
            lines.append(f"paper {entry.published_overhead:+.1f} % time")
    if entry.gap is not None:
        scale = "" if entry.is_reproduction else f" ({entry.scale} - paper scale)"
        lines.append(f"gap {entry.gap:+.{digits}f}{scale}")
    return lines or ["-"]


def scale_tag(entries: Sequence[Entry]) -> str:
    """Return the scale for a title, with the warning that belongs to it."""
    scale = entries[0].scale
    if scale == "smoke":
        made = "SYNTHETIC images" if any(entry.stand_in for entry in entries) else "a few steps"
        return f"scale smoke, {made}, numbers mean nothing"
    return f"scale {scale}" if scale == "paper" else f"scale {scale}, not a reproduction"


def remarks(experiment: Experiment) -> list[str]:
    """Return what is to be known of the experiment and of the published table as a whole."""
    names = dict.fromkeys(experiment.published_table(scenario) for scenario in (None, *experiment.scenarios))
    tables = [find_table(name) for name in names if name]
    provenance = [f"Published: {table.paper}, {table.label}: {table.title}." for table in tables]
    return [
        *provenance,
        *(f"Published: {text}." for table in tables for text in table.remarks),
        *(f"Note: {text}." for text in experiment.notes),
    ]


def print_tables(
    experiment: Experiment, entries: Sequence[Entry], statement: str, console: Console | None = None
) -> None:
    """Print a table for each stream, a section for each buffer; the scale stands above and under each."""
    from rich.console import Console
    from rich.table import Table

    console = console or Console()
    if not console.is_terminal:  # a file or a pipe has no width; do not squeeze the table into 80 columns
        console = Console(file=console.file, width=max(console.width, 200))
    notes = Footnotes()
    measures = _measures(entries)
    for stream in _streams(entries):
        # Not the table's own title, which would be broken to the width of the table.
        title = f"{experiment.name} on {stream} ({scale_tag(entries)}): {_metric(experiment, measures)}"
        console.print(title, highlight=False, markup=False, style="bold")
        table = Table()
        table.add_column("buffer", justify="right")
        table.add_column("")
        for measure in measures:
            table.add_column(measure.label)
        for buffer in _buffers(entries, stream):
            section = [e for e in entries if (e.stream, e.buffer) == (stream, buffer)]
            for number, row in enumerate(dict.fromkeys(entry.row for entry in section)):
                cells = {e.measure: e for e in section if e.row == row}
                shown = str(buffer) if number == 0 and buffer is not None else ""
                lines = [cell_lines(cells[m], notes) if m in cells else ["-"] for m in measures]
                table.add_row(shown, row, *("\n".join(cell) for cell in lines))
            table.add_section()
        console.print(table)
        console.print(statement, highlight=False, markup=False, style="italic")
    for line in (*notes.lines(), *remarks(experiment)):
        console.print(line, highlight=False, markup=False, style="dim")


def markdown(experiment: Experiment, entries: Sequence[Entry], statement: str) -> str:
    """Return the same tables as Markdown."""
    notes = Footnotes()
    measures = _measures(entries)
    parts = [
        f"# {experiment.name}",
        experiment.title[0].upper() + experiment.title[1:] + ".",
        f"**{statement}**",
    ]
    for stream in _streams(entries):
        lines = [
            "| buffer | | " + " | ".join(measure.label for measure in measures) + " |",
            "|---:|---|" + "---|" * len(measures),
        ]
        for buffer in _buffers(entries, stream):
            section = [e for e in entries if (e.stream, e.buffer) == (stream, buffer)]
            for row in dict.fromkeys(entry.row for entry in section):
                cells = {e.measure: e for e in section if e.row == row}
                texts = ["<br>".join(cell_lines(cells[m], notes)) if m in cells else "-" for m in measures]
                lines.append(f"| {'' if buffer is None else buffer} | {row} | " + " | ".join(texts) + " |")
        title = f"## {stream} ({scale_tag(entries)}): {_metric(experiment, measures)}"
        parts += [title, "\n".join(lines)]
    parts.append("\n".join(f"- {line}" for line in (*notes.lines(), *remarks(experiment))))
    return "\n\n".join(part for part in parts if part) + "\n"


def csv_text(experiment: Experiment, entries: Sequence[Entry]) -> str:
    """Return a line for every cell, with everything that is known of it."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        difference, published, measure = entry.difference, entry.published, entry.measure
        values = {
            "experiment": experiment.name,
            "row": entry.row,
            "stream": entry.stream,
            "buffer": entry.buffer,
            "metric": measure.metric,
            "scenario": measure.scenario,
            "point": measure.point,
            "scale": entry.scale,
            "measured_on": entry.stand_in.stream if entry.stand_in else entry.stream,
            "mean": entry.spread.mean,
            "std": entry.spread.std,
            "seeds": " ".join(map(str, entry.values)),
            "base": entry.base,
            "difference": difference and difference.mean,
            "low": difference and difference.low,
            "high": difference and difference.high,
            "pairs": difference and difference.count,
            "overhead_percent": entry.overhead,
            "paper_mean": published and published.mean,
            "paper_std": published and published.std,
            "paper_trials": published and published.trials,
            "paper_table": published and published.label,
            "gap": entry.gap,
            "reproduction": "yes" if entry.is_reproduction else "no",
            "missing": entry.missing,
            "notes": "; ".join(published.notes) if published else None,
            "runs": " ".join(entry.runs),
        }
        writer.writerow({name: _plain(value) for name, value in values.items()})
    return file.getvalue()


def write_tables(
    experiment: Experiment, entries: Sequence[Entry], statement: str, folder: Path
) -> list[Path]:
    """Write Markdown and CSV into the experiment's folder."""
    return [
        write_atomic(folder / "table.md", markdown(experiment, entries, statement)),
        write_atomic(folder / "table.csv", csv_text(experiment, entries)),
    ]


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else value


def _metric(experiment: Experiment, measures: Sequence[Measure]) -> str:
    units = {"seconds": "seconds", "overlap": "overlap", "silhouette": "silhouette"}
    name = measures[0].metric if measures else experiment.metric
    text = units.get(name, f"{name.replace('_', ' ')}, percent")
    return f"{text} (lower is better)" if experiment.lower_is_better else text


def _measures(entries: Sequence[Entry]) -> list[Measure]:
    return list(dict.fromkeys(entry.measure for entry in entries))


def _streams(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.stream for entry in entries))


def _buffers(entries: Sequence[Entry], stream: str) -> list[int | None]:
    return list(dict.fromkeys(entry.buffer for entry in entries if entry.stream == stream))
