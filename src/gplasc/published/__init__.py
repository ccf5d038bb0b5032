"""Published numbers as data with provenance: `lookup` finds one, `published` a whole table.

The numbers are in ``gplasc.csv``, one a line, under our names of methods and streams and with the paper's own name of
the row (``printed``). ``tables.toml`` says which table of which paper they come from, and holds the contradictions
between numbers, and between numbers and text, as notes.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from gplasc._io.text import did_you_mean


@dataclass(frozen=True)
class Published:
    """One published number. Empty: std or buffer were not stated, scenario or point do not apply."""

    paper: str
    table: str
    label: str
    row: str
    printed: str
    stream: str
    buffer: int | None
    scenario: str | None
    metric: str
    point: str | None
    mean: float
    std: float | None
    trials: int | None
    bold: bool
    notes: tuple[str, ...]
    """What contradicts this number or limits it."""

    def __str__(self) -> str:
        digits = 3 if self.metric == "overlap" else 0 if self.metric == "seconds" else 2
        spread = "" if self.std is None else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper: where it is printed, and notes, each with the columns that select its numbers."""

    name: str
    paper: str
    title: str
    label: str
    trials: int | None
    notes: tuple[tuple[str, Mapping[str, Any]], ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes on the table as a whole."""
        return tuple(text for text, where in self.notes if not where)


@lru_cache
def tables() -> dict[str, PublishedTable]:
    """Return every published table by name."""
    content = tomllib.loads(_text("tables.toml"))
    return {
        name: PublishedTable(
            name=name,
            paper=content["paper"],
            title=table["title"],
            label=table["label"],
            trials=table.get("trials"),
            notes=tuple((note["text"], note.get("where", {})) for note in table.get("notes", [])),
        )
        for name, table in content["tables"].items()
    }


def published(table: str = "") -> list[Published]:
    """Return every number of a table, in the paper's order; by default of all tables.

    Raises:
        ValueError: If there is no such table.
    """
    if table and table not in tables():
        raise ValueError(f"there is no published table '{table}'; {did_you_mean(table, tables())}")
    return [number for number in _numbers() if table in ("", number.table)]


def lookup(
    table: str,
    row: str,
    *,
    stream: str,
    buffer: int | None = None,
    scenario: str | None = None,
    metric: str = "final_accuracy",
    point: str | None = None,
) -> Published | None:
    """Find a published number; one whose buffer was not stated is found for any.

    Args:
        table: Name of the published table.
        row: Our name of the row.
        stream: Name of the stream.
        buffer: Samples in the memory.
        scenario: ``"class_il"`` or ``"task_il"``, where the table tells them apart.
        metric: Name of the metric.
        point: A task or a pair of tasks, where the table has them.

    Returns:
        The number, or None if it was not published.

    Raises:
        ValueError: If there is no such table.

    >>> str(lookup("acc_result", "co2l+gplasc", stream="seq-cifar10", buffer=200, scenario="class_il"))
    '70.59 ± 1.26'
    """
    for number in published(table):
        if (
            (number.row, number.stream, number.scenario) == (row, stream, scenario)
            and (number.metric, number.point) == (metric, point)
            and number.buffer in (buffer, None)
        ):
            return number
    return None


@lru_cache
def _numbers() -> tuple[Published, ...]:
    numbers = []
    for line in csv.DictReader(_text("gplasc.csv").splitlines()):
        table = tables()[line["table"]]
        number = Published(
            paper=table.paper,
            table=table.name,
            label=table.label,
            row=line["row"],
            printed=line["printed"],
            stream=line["stream"],
            buffer=int(line["buffer"]) if line["buffer"] else None,
            scenario=line["scenario"] or None,
            metric=line["metric"],
            point=line["point"] or None,
            mean=float(line["mean"]),
            std=float(line["std"]) if line["std"] else None,
            trials=table.trials,
            bold=line["bold"] == "1",
            notes=tuple(text for text, where in table.notes if where and _selects(where, line)),
        )
        numbers.append(number)
    return tuple(numbers)


def _selects(where: Mapping[str, Any], line: Mapping[str, str]) -> bool:
    """Return whether a note is about a line: each column has the value, or one of the values."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in where.items()}
    return all(line[name] in map(str, values) for name, values in lists.items())


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
