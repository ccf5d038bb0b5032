"""Published numbers as data with provenance: `published` finds them.

The numbers are in ``gplasc.csv``, one a line, under our names of methods and streams and with the paper's own name of
the row (``printed``). ``tables.toml`` says which table of which paper they come from, and holds the contradictions
between numbers, and between numbers and text, as notes.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict

from gplasc._io.text import did_you_mean


class Published(BaseModel):
    """One published number. None: std or buffer were not stated, scenario or point do not apply."""

    model_config = ConfigDict(frozen=True)

    paper: str
    table: str
    label: str
    row: str
    printed: str
    stream: str
    buffer: int | None = None
    scenario: str | None = None
    metric: str
    point: str | None = None
    mean: float
    std: float | None = None
    trials: int | None
    notes: tuple[str, ...]
    """What contradicts this number or limits it."""

    def __str__(self) -> str:
        digits = 3 if self.metric == "overlap" else 0 if self.metric == "seconds" else 2
        spread = "" if self.std is None else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


class _Note(BaseModel):
    """A note, and the columns that select the numbers it is about; without any it is about the whole table."""

    text: str
    where: Mapping[str, Any] = {}

    def selects(self, line: Mapping[str, str]) -> bool:
        """Return whether the note is about a line: each column has the value, or one of the values."""
        lists = {name: value if isinstance(value, list) else [value] for name, value in self.where.items()}
        return bool(lists) and all(line[name] in map(str, values) for name, values in lists.items())


class _PublishedTable(BaseModel):
    """A table of the paper: where it is printed, and notes."""

    paper: str
    title: str
    label: str
    trials: int | None = None
    notes: tuple[_Note, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes on the table as a whole."""
        return tuple(note.text for note in self.notes if not note.where)


@lru_cache
def tables() -> dict[str, _PublishedTable]:
    """Return every published table by name."""
    content = tomllib.loads(_text("tables.toml"))
    return {
        name: _PublishedTable(**{"paper": content["paper"], **table})
        for name, table in content["tables"].items()
    }


def published(table: str = "", **where: str | int | None) -> list[Published]:
    """Return every number of a table with these values, in the paper's order; by default of all tables.

    >>> str(*published("acc_result", row="co2l+gplasc", stream="seq-cifar10", buffer=200, scenario="class_il"))
    '70.59 ± 1.26'
    """
    if table and table not in tables():
        raise ValueError(f"there is no published table '{table}'; {did_you_mean(table, tables())}")
    numbers = [number for number in _numbers() if table in ("", number.table)]
    return [n for n in numbers if all(getattr(n, name) == value for name, value in where.items())]


@lru_cache
def _numbers() -> tuple[Published, ...]:
    numbers = []
    for line in csv.DictReader(_text("gplasc.csv").splitlines()):
        table = tables()[line["table"]]
        source = {"paper": table.paper, "label": table.label, "trials": table.trials}
        notes = tuple(note.text for note in table.notes if note.selects(line))
        stated = {name: value for name, value in line.items() if value}
        numbers.append(Published(**source, notes=notes, **stated))
    return tuple(numbers)


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
