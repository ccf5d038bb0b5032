"""Runs and settings as tables for people."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from gplasc._io.table import Column, Marked, Table
from gplasc._io.text import duration
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.results.record import Record, load_records
from gplasc.runs.spec import OURS, RunSpec, find_components
from gplasc.settings.presets import row_name
from gplasc.streams.augment import DEVIATIONS


def run_tables(record: Record, folder: Path) -> list[Table]:
    """Return a run's accuracies: a matrix row per task learned, and the metrics of both scenarios."""
    rows = [
        [name.replace("_", " "), *(f"{record.metric(name, scenario):.2f}" for scenario in SCENARIOS)]
        for name in record.metrics["class_il"]
    ]
    notes = [f"{record.steps} steps in {duration(record.seconds)}; saved in {folder}"]
    metrics = Table("metrics", ["", *SCENARIOS.values()], rows, notes=notes)
    return [*(_matrix(record, scenario, title) for scenario, title in SCENARIOS.items()), metrics]


def print_run(record: Record, folder: Path) -> None:
    """Print the tables of a run."""
    for table in run_tables(record, folder):
        table.print()


def list_runs(folders: Sequence[Path], columns: Sequence[str] = ()) -> Table:
    """Return a table of the complete runs in (or below) folders; default: all settings and metrics."""
    records, skipped = load_records(folders)
    for sentence in skipped:
        warnings.warn(f"skipped: {sentence}", stacklevel=3)
    lines = [
        {"run_id": record.run_id, "title": record.title, **record.flat}
        | {f"{name}.{key}": value for name, own in record.metrics.items() for key, value in own.items()}
        for record in records
    ]
    columns = columns or list(dict.fromkeys(name for line in lines for name in line))
    return Table("", columns, [[line.get(name) for name in columns] for line in lines])


def print_settings(spec: RunSpec) -> None:
    """Print every setting with its value and source, and the deviations of method, plug-ins and augmentation."""
    config = spec.config
    rows: list[list[str | Marked]] = []
    for name, value in config.flat().items():
        source = spec.sources[name]
        texts = (name, str(value), source)
        rows.append([Marked(text, "muted") for text in texts] if source == OURS else list(texts))
    columns = [Column(name, "left") for name in ("setting", "value", "from")]
    title = f"{row_name(config.title, config.flat())} on {config.stream}, scale {config.scale}"
    Table(title, columns, rows, spec.notes).print()
    names = (config.method, *config.plugins, "augmentation")
    kinds = find_components(config.method, config.plugins).values()
    for name, sentences in zip(names, (*(kind.DEVIATIONS for kind in kinds), DEVIATIONS), strict=True):
        if sentences:
            print(f"\n{name}: deviations from the paper or the official code")
            for sentence in sentences:
                print(f"  - {sentence}")


def _matrix(record: Record, scenario: str, title: str) -> Table:
    matrix = record.matrix[scenario]
    rows: list[list[str | Marked]] = []
    for number, row in enumerate(matrix):
        seen = [value for value in row if value is not None]
        cells = ["" if value is None else f"{value:.2f}" for value in row]
        rows.append([str(number + 1), *cells, Marked(f"{sum(seen) / len(seen):.2f}", "best")])
    return Table(
        f"{record.name} on {record.stream.name}: {title} accuracy, percent",
        [Column("after task", "right"), *(f"task {number + 1}" for number in range(len(matrix))), "mean"],
        rows,
    )
