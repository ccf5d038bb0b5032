"""A measured figure with its bar, and the files that keep figures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from gplasc._io.files import write_atomic
from gplasc.errors import UserError

_FORMAT = 1


@dataclass(frozen=True)
class Figure:
    """One number and the bar that it must not be worse than; a number without bar is only reported."""

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
    def within(self) -> bool:
        """Whether the figure is within its bar.

        >>> Figure("teacher", "a", 0.2, 0.25).within, Figure("loop", "b", 1.7, 1.8, "least").within
        (True, False)
        """
        if self.bar is None:
            return True
        return self.value <= self.bar if self.at == "most" else self.value >= self.bar


@dataclass
class Measured:
    """The figures of some items."""

    figures: list[Figure] = field(default_factory=list)

    def __add__(self, other: Measured) -> Measured:
        """Return those of both; where both have a figure of one name, that of the second."""
        mine = {figure.key: figure for figure in self.figures} | {f.key: f for f in other.figures}
        return Measured(list(mine.values()))

    def find(self, figure: Figure) -> Figure | None:
        """Return the figure of the same name."""
        return next((own for own in self.figures if own.key == figure.key), None)


def got_worse(before: Measured, now: Measured) -> list[Figure]:
    """Return the figures of ``now`` that miss their bar while those of ``before`` were within it, or were unknown."""
    missed = [figure for figure in now.figures if not figure.within]
    return [figure for figure in missed if (old := before.find(figure)) is None or old.within]


def write_measured(path: Path, measured: Measured, environment: dict[str, Any]) -> Path:
    """Write figures as JSON, a line for each."""
    lines = ",\n".join(f"  {json.dumps({**asdict(one), 'within': one.within})}" for one in measured.figures)
    head = f'"format": {_FORMAT},\n "environment": {json.dumps(environment)}'
    return write_atomic(path, f'{{\n {head},\n "figures": [\n{lines}\n ]\n}}\n')


def read_measured(path: Path) -> Measured:
    """Read what `write_measured` wrote; no file gives no figures.

    Raises:
        UserError: If the file is something else.
    """
    if not path.exists():
        return Measured()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        figures = [
            Figure(**{key: value for key, value in entry.items() if key != "within"})
            for entry in stored["figures"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a file of figures; give one that `make bench` wrote") from None
    return Measured(figures)
