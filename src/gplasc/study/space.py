"""The values that a search may choose from: the paper's, as data, or those that a user gives."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from gplasc.errors import UserError
from gplasc.settings.types import Config, Settings
from gplasc.study.grid import parse_axes

_NOT_SEARCHED = ("stream", "method", "plugins", "buffer", "scale", "data.validation", "data.evaluate_on")


class _Space(Settings):
    source: str
    streams: tuple[str, ...]
    values: dict[str, tuple[Any, ...]]
    paper: dict[str, tuple[Any, ...]]


def published_space(config: Config) -> dict[str, Sequence[Any]]:
    """Return the values that the paper searched, by the full name of each setting that the run has.

    The numbers of epochs and the batch size, which decide the cost, are searched at paper scale alone.

    >>> from gplasc.runs.spec import RunRequest
    >>> published_space(RunRequest("seq-digits", "er", scale="cpu").resolve().config)
    {'train.lr': (0.1, 0.2, 0.3, 0.5, 1.0)}
    """
    space = next(s for s in _spaces() if any(fnmatch.fnmatchcase(config.stream, p) for p in s.streams))
    known = config.flat()
    wanted: dict[str, Sequence[Any]] = dict(space.values)
    if config.scale == "paper":
        wanted |= space.paper
    found: dict[str, Sequence[Any]] = {}
    for name, values in wanted.items():
        full = name if "." in name else f"{next(iter(config.options))}.{name}"
        if full in known:
            found[full] = values
    return found


def given_space(words: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Read axes such as ``margin=0,0.1`` that a user gives in place of the paper's.

    Raises:
        UserError: If a word is no axis, or names what a search must not choose.
    """
    axes = parse_axes(words)
    for name in axes:
        if name in _NOT_SEARCHED:
            raise UserError(f"'{name}' cannot be searched; give it for the whole study, outside --space")
    return dict(axes)


@lru_cache
def _spaces() -> tuple[_Space, ...]:
    text = resources.files(__package__).joinpath("spaces.toml").read_text(encoding="utf-8")
    return tuple(_Space(**space) for space in tomllib.loads(text)["space"])
