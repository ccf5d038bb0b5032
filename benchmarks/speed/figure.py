"""A measured figure with its bar, and the files that keep figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from gplasc._io.files import write_atomic
from gplasc.errors import UserError

_FORMAT = 1


@dataclass(frozen=True)
class Figure:
    """One number and what it must not be worse than.

    Args:
        item: The group of measurements it belongs to, such as ``"overhead"``.
        name: What was measured; unique within the item.
        value: The number.
        bar: The limit; None if the number is only reported.
        at: Whether the value must be at most or at least the bar.
        unit: The unit of value and bar; "" for a ratio.
    """

    item: str
    name: str
    value: float
    bar: float | None = None
    at: Literal["most", "least"] = "most"
    unit: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the figure in another file."""
        return self.item, self.name

    @property
    def limit_used(self) -> float | None:
        """How much of the bar is used: at most 1 if the figure is within it. None without bar.

        >>> Figure("teacher", "a", 0.2, 0.25).limit_used, Figure("loop", "b", 2.0, 1.8, "least").limit_used
        (0.8, 0.9)
        """
        if self.bar is None:
            return None
        if self.at == "most":
            return self.value / self.bar
        return self.bar / self.value if self.value > 0 else float("inf")

    @property
    def within(self) -> bool:
        """Whether the figure is within its bar; one without bar always is."""
        used = self.limit_used
        return used is None or used <= 1.0


@dataclass(frozen=True)
class Curve:
    """Values over the number of tasks, classes or buffer rows.

    Args:
        chart: The title of the chart that the curve is drawn in.
        name: What is drawn.
        x_label: What the places are.
        y_label: What the values are.
        x: Places.
        y: Values.
    """

    chart: str
    name: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass
class Measured:
    """The figures and curves of some items."""

    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def __add__(self, other: Measured) -> Measured:
        """Return those of both; where both have a figure of one name, that of the second."""
        mine = {figure.key: figure for figure in self.figures} | {f.key: f for f in other.figures}
        curves = {(c.chart, c.name): c for c in self.curves} | {(c.chart, c.name): c for c in other.curves}
        return Measured(list(mine.values()), list(curves.values()))

    def find(self, figure: Figure) -> Figure | None:
        """Return the figure of the same name."""
        return next((own for own in self.figures if own.key == figure.key), None)


def got_worse(before: Measured, now: Measured) -> list[Figure]:
    """Return the figures of ``now`` that miss their bar while those of ``before`` were within it, or were unknown."""
    missed = [figure for figure in now.figures if not figure.within]
    return [figure for figure in missed if (old := before.find(figure)) is None or old.within]


def write_measured(path: Path, measured: Measured, environment: dict[str, Any]) -> Path:
    """Write figures and curves as JSON, a line for each."""
    figures = [{**asdict(figure), "within": figure.within} for figure in measured.figures]
    curves = [asdict(curve) for curve in measured.curves]
    lists = (
        f'"{name}": [\n' + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n ]"
        for name, entries in (("figures", figures), ("curves", curves))
    )
    head = f'"format": {_FORMAT},\n "environment": {json.dumps(environment)}'
    return write_atomic(path, "{\n " + ",\n ".join([head, *lists]) + "\n}\n")


def read_measured(path: Path) -> Measured:
    """Read what `write_measured` wrote; no file gives no figures.

    Raises:
        UserError: If the file is something else.
    """
    if not path.exists():
        return Measured()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        figures = [Figure(**_without(entry, "within")) for entry in found["figures"]]
        curves = [
            Curve(**{**entry, "x": tuple(entry["x"]), "y": tuple(entry["y"])}) for entry in found["curves"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a file of figures; give one that `make bench` wrote") from None
    return Measured(figures, curves)


def _without(entry: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != name}


def names_of(figures: Sequence[Figure]) -> str:
    """Return the names of figures, for a sentence."""
    return ", ".join(f"{figure.item}: {figure.name}" for figure in figures)
