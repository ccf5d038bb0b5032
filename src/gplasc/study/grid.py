"""The axes of a sweep, such as `margin=0,0.1 train.lr=0.1,0.5`, and the points of their product."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gplasc.errors import UserError
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.settings.parse import parse_value
from gplasc.settings.types import Scale

_NAMED = ("stream", "method", "plugins", "buffer")


@dataclass(frozen=True)
class Point:
    """One point of a sweep: its value on every axis, and the complete settings of each seed."""

    values: Mapping[str, Any]
    seeds: tuple[RunSpec, ...]

    @property
    def texts(self) -> list[str]:
        """The values for people, in the order of the axes."""
        return [("+".join(v) or "none") if isinstance(v, tuple) else str(v) for v in self.values.values()]

    @property
    def label(self) -> str:
        """The point in words."""
        return ", ".join(map("=".join, zip(self.values, self.texts, strict=True))) or "as given"


def parse_axes(words: Iterable[str]) -> dict[str, list[Any]]:
    """Read axes such as ``margin=0,0.1``; a TOML list allows values that contain commas.

    Args:
        words: One axis each.

    Returns:
        The values of every axis.

    Raises:
        UserError: If a word is not an axis, or an axis is given twice or has no values.

    >>> parse_axes(["margin=0,0.1", "plugin=none,gplasc", 'stream=["synthetic:tasks=2,size=8"]'])
    {'margin': [0, 0.1], 'plugins': [(), ('gplasc',)], 'stream': ['synthetic:tasks=2,size=8']}
    """
    axes: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        name = "plugins" if name == "plugin" else name
        listed = parse_value(text) if text.startswith("[") else None
        values = listed if isinstance(listed, list) else [parse_value(v.strip()) for v in text.split(",")]
        if not name or not equals or not values or "" in values:
            raise UserError(
                f"'{word}' is no axis of a grid; write name=value,value, for example margin=0,0.1"
            )
        if name in axes:
            raise UserError(
                f"the axis '{name}' is given twice; write all its values once, separated by commas"
            )
        if name == "seed":
            raise UserError("seeds are no axis of the grid; write --seeds 0 1 2")
        if name == "plugins":
            values = [() if value in (None, "none") else tuple(str(value).split("+")) for value in values]
        axes[name] = values
    return axes


def grid_points(
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
    """Return every point of the product of the axes.

    Args:
        axes: Values of every axis: a setting, or stream, method, plugins or buffer.
        seeds: Seeds of every point.
        stream: Stream of all points, unless it is an axis; so are method, plugins and buffer.
        method: See stream.
        plugins: See stream.
        buffer: See stream.
        scale: Scale of all points.
        settings: Further settings of all points.

    Returns:
        The points, the last axis varying fastest.

    Raises:
        UserError: If a name or a value is not allowed, or two points are the same run.
    """
    check_seeds(seeds)
    points: list[Point] = []
    taken: dict[str, str] = {}
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        base: dict[str, Any] = {"stream": stream, "method": method, "plugins": plugins, "buffer": buffer}
        base |= {name: value for name, value in values.items() if name in _NAMED}
        for name in ("stream", "method"):
            if not isinstance(base[name], str):
                raise UserError(f"{name} was given as {base[name]!r}; it must be a name")
        if not isinstance(base["buffer"], int | None) or isinstance(base["buffer"], bool):
            raise UserError(f"buffer was given as {base['buffer']!r}; it must be a whole number")
        given = dict(settings or {}) | {n: v for n, v in values.items() if n not in _NAMED}
        point = Point(
            values,
            tuple(RunRequest(**base, seed=seed, scale=scale, settings=given).resolve() for seed in seeds),
        )
        run_id = point.seeds[0].config.run_id
        if run_id in taken:
            raise UserError(
                f"two points of the grid are the same run: {taken[run_id]} and {point.label}; leave one out"
            )
        taken[run_id] = point.label
        points.append(point)
    return points


def check_seeds(seeds: Sequence[int]) -> None:
    """Check seeds that a user gave.

    Raises:
        UserError: If one is negative or given twice.
    """
    for index, seed in enumerate(seeds):
        if seed < 0:
            raise UserError(f"the seed {seed} is negative; seeds are whole numbers from 0")
        if seed in seeds[:index]:
            raise UserError(f"the seed {seed} is given twice; give every seed once")
