"""The axes of a sweep, such as `margin=0,0.1 train.lr=0.1,0.5`, and the cells of their product."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gplasc.errors import UserError
from gplasc.runs.spec import RunRequest
from gplasc.settings.parse import parse_value
from gplasc.study.cell import Cell

_NAMED = ("stream", "method", "plugins", "buffer")


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


def grid_cells(axes: Mapping[str, Sequence[Any]], seeds: Sequence[int], request: RunRequest) -> list[Cell]:
    """Return the runs of the product of the axes, each with a label for each axis.

    Args:
        axes: Values of every axis: a setting, or stream, method, plugins or buffer.
        seeds: Seeds of every point of the grid.
        request: What all runs have in common.

    Returns:
        The cells, the seed varying fastest and then the last axis.

    Raises:
        UserError: If a name or a value is not allowed, or two points are the same run.
    """
    check_seeds(seeds)
    cells: list[Cell] = []
    taken: dict[str, str] = {}
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        named = {name: value for name, value in values.items() if name in _NAMED}
        for name in ("stream", "method"):
            if not isinstance(named.get(name, ""), str):
                raise UserError(f"{name} was given as {named[name]!r}; it must be a name")
        buffer = named.get("buffer")
        if not isinstance(buffer, int | None) or isinstance(buffer, bool):
            raise UserError(f"buffer was given as {buffer!r}; it must be a whole number")
        settings = {**request.settings, **{n: v for n, v in values.items() if n not in _NAMED}}
        labels = {name: _label(value) for name, value in values.items()}
        point = [
            Cell(labels, replace(request, **named, seed=seed, settings=settings).resolve()) for seed in seeds
        ]
        if point[0].run_id in taken:
            raise UserError(
                f"two points of the grid are the same run: {taken[point[0].run_id]} and {point[0].row}; leave one out"
            )
        taken[point[0].run_id] = point[0].row
        cells += point
    return cells


def _label(value: Any) -> str | int | float:
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return value if isinstance(value, int | float) else str(value)


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
