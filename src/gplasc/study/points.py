"""Axes such as `margin=0,0.1`, search spaces, and the trials of a fair comparison: as many for each side."""

from __future__ import annotations

import fnmatch
import itertools
import math
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from gplasc.errors import UserError
from gplasc.settings.components import section_names
from gplasc.settings.parse import parse_value
from gplasc.settings.types import Config

Axes = dict[str, tuple[Any, ...]]
"""Values of each setting, by name."""

NOT_SEARCHED = ("stream", "method", "plugins", "buffer", "scale", "data.validation", "data.evaluate_on")
_EPOCHS = "train.epochs"
_MOST_POINTS = 20_000


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
                f"'{word}' is not an axis of a grid; write name=value,value, for example margin=0,0.1"
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


def tune_space(words: Sequence[str], config: Config) -> Axes:
    """Return what `gplasc tune` searches: the values that a user gives, else those that the paper searched.

    The numbers of epochs and the batch size, which decide the cost, are searched at paper scale alone.

    >>> from gplasc.runs.spec import RunRequest
    >>> tune_space((), RunRequest("seq-digits", "er", scale="cpu").resolve().config)
    {'train.lr': (0.1, 0.2, 0.3, 0.5, 1.0)}
    """
    if words:
        return _given_space(words)
    spaces = _read("spaces.toml")["space"]
    space = next(s for s in spaces if any(fnmatch.fnmatchcase(config.stream, p) for p in s["streams"]))
    wanted = space["values"] | (space["paper"] if config.scale == "paper" else {})
    return {
        full: tuple(values)
        for name, values in wanted.items()
        if (full := _full_name(name, config)) in config.flat()
    }


def _given_space(words: Sequence[str]) -> Axes:
    """Read axes such as ``margin=0,0.1``."""
    axes = {name: tuple(values) for name, values in parse_axes(words).items()}
    for name in axes:
        if name in NOT_SEARCHED:
            raise UserError(f"'{name}' cannot be searched; give it for the whole study, outside --space")
    return axes


def fair_space(words: Sequence[str] = ()) -> Axes:
    """Return what a fair comparison searches: the values of ``fair.toml``, or for a setting those that a user gives.

    A value may be a factor: ``train.lr=x0.5,x1,x2`` is times the preset's value.
    """
    return {name: tuple(values) for name, values in (_read("fair.toml") | _given_space(words)).items()}


def axes_of(space: Mapping[str, Sequence[Any]], config: Config, preset: Config) -> Axes:
    """Return the part of a space that a run has, by full names, with factors multiplied out.

    Factors refer to the preset, which is that of the other side, so that both search the same values.
    """
    own, known = config.flat(), preset.flat()
    axes: Axes = {}
    for short, values in space.items():
        name = _full_name(short, config)
        if name in own:
            value = known.get(name, own[name])
            axes[name] = tuple(dict.fromkeys(_absolute(name, text, value) for text in values))
    return axes


def make_trials(
    axes: Axes, config: Config, anchor: Config, count: int, seed: int
) -> tuple[Mapping[str, Any], ...]:
    """Return the settings of trials: none for the preset ``config``, then points of the axes.

    Rows with the same method and anchor (the preset of what the row is compared with) try the same values of what
    they share; the settings of plug-ins are combined with them at random. The list depends on the arguments alone,
    and a longer one begins with the shorter ones.
    """
    plugins = section_names(config.method, config.plugins)[1:]
    own = {name: values for name, values in axes.items() if name.rpartition(".")[0] in plugins}
    shared = {name: values for name, values in axes.items() if name not in own}
    points = _different_points(shared, anchor.flat(), count - 1, seed)
    more = _balanced_points(own, count - 1, seed)
    return ({}, *(_with_epochs(point | extra, anchor) for point, extra in zip(points, more, strict=True)))


def _read(name: str) -> dict[str, Any]:
    """Read a TOML file of this package."""
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _full_name(name: str, config: Config) -> str:
    """Return the full name of a setting; a name without a dot is a setting of the method."""
    return name if "." in name else f"{next(iter(config.options))}.{name}"


def _with_epochs(point: dict[str, Any], preset: Config) -> dict[str, Any]:
    """Return the settings of a trial; with the epochs, those of the first task and the milestones are stretched."""
    train = preset.train
    factor = point.get(_EPOCHS, train.epochs) / train.epochs
    if factor == 1:
        return point
    settings = dict(point)
    if train.first_epochs is not None:
        settings["train.first_epochs"] = max(1, round(factor * train.first_epochs))
    if train.milestones:
        settings["train.milestones"] = [max(1, round(factor * epoch)) for epoch in train.milestones]
    return settings


def _different_points(
    axes: Mapping[str, Sequence[Any]], first: Mapping[str, Any], count: int, seed: int
) -> list[dict[str, Any]]:
    """Return different points of the product of the axes, each value about equally often, without the first one.

    >>> _different_points({"a": [1, 2], "b": [1, 2]}, {"a": 1, "b": 1}, 2, seed=0)
    [{'a': 2, 'b': 2}, {'a': 2, 'b': 1}]
    """
    rng = random.Random(f"points {seed}")
    if math.prod(map(len, axes.values())) <= _MOST_POINTS:
        candidates = list(itertools.product(*axes.values()))
    else:
        drawn = (tuple(rng.choice(values) for values in axes.values()) for _ in range(_MOST_POINTS))
        candidates = list(dict.fromkeys(drawn))
    known = tuple(first.get(name) for name in axes)
    candidates = [point for point in candidates if point != known]
    if len(candidates) < count:
        names = ", ".join(f"{name} ({len(values)} values)" for name, values in axes.items()) or "nothing"
        raise UserError(
            f"{count + 1} trials need as many different settings, but {names} give {len(candidates) + 1}; give more "
            "values with --space, or fewer --trials"
        )
    rng.shuffle(candidates)
    used = Counter(enumerate(known))
    points = []
    for _ in range(count):
        best = min(candidates, key=lambda point: sum(used[place] for place in enumerate(point)))
        candidates.remove(best)
        used.update(enumerate(best))
        points.append(dict(zip(axes, best, strict=True)))
    return points


def _balanced_points(axes: Mapping[str, Sequence[Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Return points in which the values of each axis take turns, in a random order of its own.

    >>> _balanced_points({"a": [1, 2]}, 4, seed=0)
    [{'a': 1}, {'a': 2}, {'a': 2}, {'a': 1}]
    """
    columns = []
    for name, values in axes.items():
        rng = random.Random(f"{name} {seed}")
        column: list[Any] = []
        while len(column) < count:
            column += rng.sample(list(values), len(values))
        columns.append(column[:count])
    return [dict(zip(axes, point, strict=True)) for point in zip(*columns, strict=True)] or [{}] * count


def _absolute(name: str, value: Any, preset: Any) -> Any:
    """Return a value; of a factor such as x2, the preset's value times it.

    >>> _absolute("train.lr", "x0.3", 0.1), _absolute("train.epochs", "x0.5", 5), _absolute("model.width", 8, 4)
    (0.03, 2, 8)
    """
    factor = re.fullmatch(r"x(\d+\.?\d*)", value) if isinstance(value, str) else None
    if factor is None:
        return tuple(value) if isinstance(value, list) else value
    if isinstance(preset, bool) or not isinstance(preset, int | float):
        raise UserError(f"{name} is {preset!r} in the preset, so {value} of it is no value; give the values")
    product = float(factor[1]) * preset
    return max(1, round(product)) if isinstance(preset, int) else float(f"{product:.6g}")
