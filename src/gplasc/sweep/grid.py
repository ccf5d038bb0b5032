"""Any grid over settings: `margin=0,0.1 train.lr=0.1,0.5` times seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gplasc.config import Scale, parse_value
from gplasc.errors import UserError
from gplasc.resolve import Resolved, resolve

_NAMED = ("stream", "method", "plugins", "buffer")


@dataclass(frozen=True)
class Point:
    """One point of a grid: what it says of itself, and the settings of each seed."""

    values: Mapping[str, Any]
    seeds: tuple[Resolved, ...]

    @property
    def label(self) -> str:
        """The point in words."""
        return ", ".join(f"{name}={text(value)}" for name, value in self.values.items()) or "as given"


def text(value: Any) -> str:
    """Write a value of a grid for people.

    >>> text(("gplasc",)), text(()), text(0.1)
    ('gplasc', 'none', '0.1')
    """
    return ("+".join(value) or "none") if isinstance(value, tuple) else str(value)


def parse_axes(words: Iterable[str]) -> dict[str, list[Any]]:
    """Read axes such as ``margin=0,0.1``; a TOML list allows values that contain commas.

    >>> parse_axes(["margin=0,0.1", "plugin=none,gplasc", 'stream=["synthetic:tasks=2,size=8"]'])
    {'margin': [0, 0.1], 'plugins': [(), ('gplasc',)], 'stream': ['synthetic:tasks=2,size=8']}
    """
    axes: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = (part.strip() for part in word.partition("="))
        name = "plugins" if name == "plugin" else name
        if not name or not equals or not values:
            raise UserError(
                f"'{word}' is no axis of a grid; write name=value,value, for example margin=0,0.1"
            )
        if name in axes:
            raise UserError(
                f"the axis '{name}' is given twice; write all its values once, separated by commas"
            )
        if name == "seed":
            raise UserError("seeds are no axis of the grid; write --seeds 0 1 2")
        listed = parse_value(values) if values.startswith("[") else None
        found = listed if isinstance(listed, list) else [parse_value(v.strip()) for v in values.split(",")]
        if name == "plugins":
            found = [() if value in (None, "", "none") else tuple(str(value).split("+")) for value in found]
        axes[name] = found
    return axes


def expand(
    axes: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    *,
    stream: str,
    method: str,
    plugins: tuple[str, ...] = (),
    buffer: int | None = None,
    scale: Scale = "cpu",
    settings: Mapping[str, Any] | None = None,
) -> list[Point]:
    """Return every point of the grid with its complete settings; a mistake in any of them is found here."""
    points = []
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        base: dict[str, Any] = {"stream": stream, "method": method, "plugins": plugins, "buffer": buffer}
        base |= {name: value for name, value in values.items() if name in _NAMED}
        if not isinstance(base["buffer"], int | None) or isinstance(base["buffer"], bool):
            raise UserError(f"buffer was given as {base['buffer']!r}; it must be a whole number")
        given = dict(settings or {}) | {n: v for n, v in values.items() if n not in _NAMED}
        resolved = tuple(resolve(**base, seed=seed, scale=scale, settings=given) for seed in seeds)
        points.append(Point(values, resolved))
    return points
