"""An experiment's result as tables: one a stream to read, and one with a line for every cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Table
from gplasc.paper.definition import Experiment
from gplasc.paper.summary import Entry
from gplasc.published import tables as published_tables
from gplasc.results.group import Measure


def stream_tables(experiment: Experiment, entries: Sequence[Entry], statement: str) -> list[Table]:
    """Return a table for each stream, with a section for each buffer.

    Args:
        experiment: The experiment.
        entries: The cells of its tables.
        statement: The scale of the numbers; it is below every table.

    Returns:
        The tables; the notes on published numbers and on the experiment are below the last one.
    """
    notes = Footnotes()
    measures = list(dict.fromkeys(entry.measure for entry in entries))
    columns = [Column("buffer"), Column("", "left"), *(Column(m.label, "left") for m in measures)]
    tables: list[tuple[str, list[list[str]], list[int]]] = []
    for stream in dict.fromkeys(entry.stream for entry in entries):
        rows: list[list[str]] = []
        breaks = []
        cells: dict[tuple[int | None, str], dict[Measure, Entry]] = {}
        for entry in entries:
            if entry.stream == stream:
                cells.setdefault((entry.buffer, entry.row), {})[entry.measure] = entry
        for buffer in dict.fromkeys(buffer for buffer, _ in cells):
            breaks.append(len(rows))
            for row, found in ((row, found) for (other, row), found in cells.items() if other == buffer):
                lines = [cell_lines(found[m], notes) if m in found else ["-"] for m in measures]
                shown = str(buffer) if buffer is not None and len(rows) == breaks[-1] else ""
                rows.append([shown, row, *map("\n".join, lines)])
        title = f"{experiment.name} on {stream} ({_scale_tag(entries)}): {_metric(experiment, measures)}"
        tables.append((title, rows, breaks))
    last = [*notes.lines(), *_remarks(experiment)]
    return [
        Table(title, columns, rows, [statement, *(last if number == len(tables) else [])], breaks)
        for number, (title, rows, breaks) in enumerate(tables, 1)
    ]


def cell_table(experiment: Experiment, entries: Sequence[Entry]) -> Table:
    """Return a table with a line for every cell and all that is known of it, for CSV."""
    lines = [_facts(experiment, entry) for entry in entries]
    return Table("", list(lines[0]), [list(line.values()) for line in lines])


def save_tables(
    experiment: Experiment, entries: Sequence[Entry], tables: Sequence[Table], folder: Path
) -> list[Path]:
    """Write table.md and table.tex, to read, and table.csv, a line for every cell, and return their paths."""
    title = experiment.title[0].upper() + experiment.title[1:]
    texts = {
        "md": "\n".join([f"# {experiment.name}\n\n{title}.\n", *(table.to_markdown() for table in tables)]),
        "tex": "\n".join(table.to_latex() for table in tables),
        "csv": cell_table(experiment, entries).to_csv(),
    }
    return [write_atomic(folder / f"table.{suffix}", text) for suffix, text in texts.items()]


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
    """Return the lines of a cell: our number, the difference to the base, the published number, the gap."""
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
        lines.append(f"{found.mean:+.{digits}f}{interval} to {entry.base} (n={found.count})")
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


def _facts(experiment: Experiment, entry: Entry) -> dict[str, Any]:
    difference, published, measure = entry.difference, entry.published, entry.measure
    return {
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


def _scale_tag(entries: Sequence[Entry]) -> str:
    """Return the scale for a title, with the warning that belongs to it."""
    scale = entries[0].scale
    if scale == "smoke":
        made = "SYNTHETIC images" if any(entry.stand_in for entry in entries) else "a few steps"
        return f"scale smoke, {made}, numbers mean nothing"
    return f"scale {scale}" if scale == "paper" else f"scale {scale}, not a reproduction"


def _remarks(experiment: Experiment) -> list[str]:
    """Return the notes on the published tables as a whole and on the experiment."""
    names = dict.fromkeys(experiment.published_table(scenario) for scenario in (None, *experiment.scenarios))
    tables = [published_tables()[name] for name in names if name]
    intervals = (
        "Differences: mean of the seeds' differences [Student's interval of 95 percent] (number of pairs)."
    )
    return [
        *([intervals] if any(row.base for row in experiment.rows) else []),
        *(f"Published: {table.paper}, {table.label}: {table.title}." for table in tables),
        *(f"Published: {text}." for table in tables for text in table.remarks),
        *(f"Note: {text}." for text in experiment.notes),
    ]


def _metric(experiment: Experiment, measures: Sequence[Measure]) -> str:
    name = measures[0].metric if measures else experiment.metric
    text = name if name in ("seconds", "overlap", "silhouette") else f"{name.replace('_', ' ')}, percent"
    return f"{text} (lower is better)" if experiment.lower_is_better else text
