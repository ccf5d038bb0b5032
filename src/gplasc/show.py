"""Runs and settings as tables for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gplasc.progress import duration
from gplasc.resolve import Resolved


def print_run(record: dict[str, Any], folder: Path) -> None:
    """Print a run's accuracies: a matrix row per task learned, and the metrics of both scenarios."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for scenario, title in (("class_il", "class-IL"), ("task_il", "task-IL")):
        matrix = record["matrix"][scenario]
        table = Table(title=f"{record['title']} on {record['stream']['name']}: {title} accuracy, percent")
        table.add_column("after task", justify="right")
        for number in range(len(matrix)):
            table.add_column(f"task {number + 1}", justify="right")
        table.add_column("mean", justify="right", style="bold")
        for number, row in enumerate(matrix):
            seen = [value for value in row if value is not None]
            cells = ["" if value is None else f"{value:.2f}" for value in row]
            table.add_row(str(number + 1), *cells, f"{sum(seen) / len(seen):.2f}")
        console.print(table)
    table = Table(title="metrics")
    table.add_column("")
    metrics = record["metrics"]
    for title in ("class-IL", "task-IL"):
        table.add_column(title, justify="right")
    for name in metrics["class_il"]:
        table.add_row(
            name.replace("_", " "),
            *(f"{metrics[scenario][name]:.2f}" for scenario in ("class_il", "task_il")),
        )
    console.print(table)
    console.print(
        f"{record['steps']} steps in {duration(record['seconds'])}; saved in {folder}", highlight=False
    )


def print_settings(resolved: Resolved) -> None:
    """Print every setting with its value and source, and the deviations of method and plug-ins."""
    from rich.console import Console
    from rich.table import Table

    from gplasc.methods import find_method
    from gplasc.plugins import find_plugin

    config = resolved.config
    table = Table(title=f"{config.title} on {config.stream}, scale {config.scale} (run {config.run_id})")
    for column in ("setting", "value", "from"):
        table.add_column(column, overflow="fold")
    for name, value in config.flat().items():
        source = resolved.sources[name]
        table.add_row(name, str(value), source, style="dim" if source == "default" else None)
    console = Console()
    console.print(table)
    for name, kind in (
        (config.method, find_method(config.method)),
        *((n, find_plugin(n)) for n in config.plugins),
    ):
        if kind.DEVIATIONS:
            console.print(f"\n{name}: departures from the paper or the official code", style="bold")
            for deviation in kind.DEVIATIONS:
                console.print(f"  - {deviation}", highlight=False)
