"""What users write of many runs: axes such as `margin=0,0.1 train.lr=0.1,0.5`, and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gplasc.errors import UserError
from gplasc.settings.parse import parse_value


def parse_axes(words: Iterable[str]) -> dict[str, list[Any]]:
    """Read axes such as ``margin=0,0.1``, one a word; a TOML list allows values that contain commas.

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


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that are negative or given twice."""
    for seed in seeds:
        if seed < 0:
            raise UserError(f"the seed {seed} is negative; seeds are whole numbers from 0")
        if seeds.count(seed) > 1:
            raise UserError(f"the seed {seed} is given twice; give every seed once")
