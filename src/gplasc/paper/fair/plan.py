"""What a fair comparison computes: the protocol that a user asks for, the rows, and the trials of each."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.paper.definition import (
    Experiment,
    PlannedRun,
    Row,
    load_experiment,
    plan_one,
    row_filter,
)
from gplasc.settings.components import is_file, section_names
from gplasc.settings.parse import parse_assignments
from gplasc.settings.types import Config, Scale, Settings
from gplasc.streams import find_stream
from gplasc.study.grid import check_seeds
from gplasc.study.points import Axes, axes_of, balanced_points, different_points, fair_space, with_epochs
from gplasc.study.search import on_validation
from gplasc.study.space import given_space


class Protocol(Settings):
    """What a fair comparison compares, and how."""

    experiment: str
    scale: Scale = "cpu"
    streams: tuple[str, ...] = Field((), description="any streams; default: those of the experiment")
    buffers: tuple[int, ...] = Field(
        (), description="default: those of the experiment, or of the preset for a stream that it lacks"
    )
    methods: tuple[str, ...] = Field((), description="any methods; default: those of the experiment")
    plugins: tuple[str, ...] = Field((), description="any plug-ins; default: those of the experiment")
    only: tuple[str, ...] = Field((), description="streams, buffers or rows to keep")
    trials: int = Field(12, description="settings that are tried for each row, the preset's among them")
    tune_seeds: tuple[int, ...] = (1000,)
    seeds: tuple[int, ...] = Field((0, 1, 2, 3, 4), description="seeds of the runs on test")
    validation: float = Field(0.2, description="share of the training samples that trials are evaluated on")
    search_seed: int = 0
    space: tuple[str, ...] = Field((), description="axes in place of those of fair.toml, or beside them")
    set: tuple[str, ...] = Field((), description="settings of all rows; they are not searched")
    tune_set: tuple[str, ...] = Field(
        (), description="settings of the trials alone, such as a cheaper budget"
    )
    temperatures: tuple[float, ...] = Field(
        (0.5, 0.1), description="temperatures of the table temperature x plug-in"
    )

    def check(self) -> None:
        """Check that the numbers are allowed.

        Raises:
            UserError: If one is not.
        """
        check_seeds(self.seeds)
        check_seeds(self.tune_seeds)
        if not self.seeds or not self.tune_seeds:
            raise UserError("--seeds and --tune-seeds need at least one seed each")
        both = sorted({*self.seeds} & {*self.tune_seeds})
        if both:
            raise UserError(
                f"the seed {both[0]} is given for tuning and for the test; --seeds and --tune-seeds must differ"
            )
        if self.trials < 1:
            raise UserError(f"--trials is {self.trials}; every row needs at least 1, the preset")
        if not 0 < self.validation < 1:
            raise UserError(
                f"--validation is {self.validation:g}; it is a share between 0 and 1, such as 0.2"
            )
        if any(temperature <= 0 for temperature in self.temperatures):
            raise UserError(f"--temperatures are {self.temperatures}; they must be greater than 0")
        twice = [name for name in self.plugins if self.plugins.count(name) > 1]
        if twice:
            raise UserError(f"the plug-in '{twice[0]}' is named twice; name it once")

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned; with one trial there is nothing to choose from."""
        return self.trials > 1

    @property
    def command(self) -> str:
        """The command that computes the comparison again; where the runs and the data are is left out."""
        words = ["gplasc", "reproduce", self.experiment, "--fair", "--scale", self.scale]
        for name, field in Protocol.model_fields.items():
            value = getattr(self, name)
            if name in ("experiment", "scale") or value == field.default:
                continue
            option = f"--{name.replace('_', '-')}"
            if name in ("set", "tune_set"):  # may be repeated, as elsewhere
                words += [word for one in value for word in (option, one)]
            else:
                words += [option, *(map(str, value) if isinstance(value, tuple) else [str(value)])]
        return shlex.join(words)


@dataclass(frozen=True)
class Trial:
    """Settings to try: the values of what is searched, and all that is set for them."""

    values: Mapping[str, Any]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a row on a stream with a buffer, what is searched, and its trials."""

    experiment: Experiment
    row: Row
    stream: str
    buffer: int | None
    preset: Config
    searched: Axes
    trials: tuple[Trial, ...]

    @property
    def key(self) -> tuple[str, str, int | None]:
        """Names the side."""
        return (self.row.name, self.stream, self.buffer)

    @property
    def temperature(self) -> str | None:
        """The full name of the method's temperature; None if it has none, or the row fixes it."""
        name = f"{next(iter(self.preset.options))}.temperature"
        return name if name in self.preset.flat() and name not in fixed_names(self.row, self.preset) else None

    def run(self, settings: Mapping[str, Any], seed: int) -> PlannedRun:
        """Return a run with further settings."""
        row = self.row.model_copy(update={"settings": {**self.row.settings, **settings}})
        return plan_one(self.experiment, row, self.stream, self.buffer, seed, self.preset.scale)

    def tuning_run(self, trial: Trial, protocol: Protocol, seed: int) -> PlannedRun:
        """Return the run of a trial, evaluated on a share of the training samples."""
        cheaper = parse_assignments(protocol.tune_set)
        wanted = {**self.row.settings, **trial.settings, **cheaper, "data.validation": protocol.validation}
        return self.run(on_validation({"settings": wanted})["settings"], seed)


def plan_sides(protocol: Protocol) -> list[Side]:
    """Return both sides of every comparison that is asked for, stream by stream.

    Raises:
        UserError: If something is not allowed, or nothing is left.
    """
    protocol.check()
    original = load_experiment(protocol.experiment)
    if original.single:
        raise UserError(f"{original.name} measures time, which is not tuned; leave out --fair")
    experiment = compose(original, protocol)
    keep = row_filter(experiment, protocol.only, ())
    places = [
        (row, stream, buffer)
        for stream in experiment.streams
        for row in experiment.rows
        if stream not in original.streams or stream in (row.streams or experiment.streams)
        for buffer in protocol.buffers or _buffers(original, row, stream)
        if keep(row, stream, buffer)
    ]
    places.sort(key=lambda place: (experiment.streams.index(place[1]), place[2] or 0))
    if not places:
        raise UserError(f"nothing of {experiment.name} is left by --only; leave it out")
    given = parse_assignments(protocol.set)
    space = fair_space(protocol.space)
    presets = {}
    for row, stream, buffer in places:
        presets[row.name, stream, buffer] = _with_given(experiment, row, stream, buffer, protocol, given)
    _check_known(given, [config for _, config in presets.values()], "setting")
    if protocol.tunes and any(config.data.evaluate_on != "test" for _, config in presets.values()):
        raise UserError(
            "data.evaluate_on=validation: what was chosen on validation is evaluated on test; leave it out, or give "
            "--trials 1, which chooses nothing"
        )
    _check_tune_set(protocol, space, presets.values())
    _check_known(given_space(protocol.space), [config for _, config in presets.values()], "axis")
    sides = []
    for (_, stream, buffer), (row, config) in presets.items():
        _, anchor = presets.get((row.base or "", stream, buffer), (row, config))
        if anchor.method != config.method:
            anchor = config
        sides.append(_side(experiment, row, stream, buffer, config, anchor, space, protocol))
    return sides


def compose(experiment: Experiment, protocol: Protocol) -> Experiment:
    """Return the experiment with the streams, methods and plug-ins that a user names in place of its own.

    A method that the experiment lacks becomes a row. Each plug-in becomes a row for each row without plug-ins.
    """
    for stream in protocol.streams:
        find_stream(stream)  # a wrong name is one error, not one for each run
    rows = list(experiment.rows)
    if protocol.methods:
        rows = [row for row in rows if row.method in protocol.methods]
        known = {row.method for row in rows if not row.plugins}
        rows += [Row(name=_stem(m), method=m) for m in protocol.methods if m not in known]
    if protocol.plugins:
        named = {row.name: row for row in rows if row.plugins}
        composed = []
        for row in (row for row in rows if not row.plugins):
            composed.append(row)
            for plugin in protocol.plugins:
                name = f"{row.name}+{_stem(plugin)}"
                fresh = row.model_copy(update={"name": name, "plugins": (plugin,), "base": row.name})
                own = named.get(name)
                composed.append(own if own is not None and own.plugins == (plugin,) else fresh)
        rows = composed
    if not rows:
        raise UserError(f"nothing of {experiment.name} is left by --methods; leave it out")
    return experiment.model_copy(
        update={"rows": tuple(rows), "streams": protocol.streams or experiment.streams}
    )


def fixed_names(row: Row, config: Config) -> set[str]:
    """Return the full names of what a row sets itself, which is therefore not searched."""
    return {full for full in config.flat() if full in row.settings or full.rpartition(".")[2] in row.settings}


def _side(
    experiment: Experiment,
    row: Row,
    stream: str,
    buffer: int | None,
    config: Config,
    anchor: Config,
    space: Mapping[str, Sequence[Any]],
    protocol: Protocol,
) -> Side:
    """Make the trials of a row: first its preset, then points that its base tries too, with points of its own."""
    fixed = fixed_names(row, config)
    axes = {n: values for n, values in axes_of(space, config, anchor).items() if n not in fixed}
    plugins = section_names(config.method, config.plugins)[1:]
    own = {name: values for name, values in axes.items() if name.rpartition(".")[0] in plugins}
    shared = {name: values for name, values in axes.items() if name not in own}
    try:
        points = different_points(shared, anchor.flat(), protocol.trials - 1, protocol.search_seed)
    except UserError as error:
        raise UserError(f"{row.name} on {stream}: {error}") from None
    more = balanced_points(own, protocol.trials - 1, protocol.search_seed)
    known = config.flat()
    trials = [Trial({name: known[name] for name in axes}, {})]
    for point, extra in zip(points, more, strict=True):
        values = {**point, **extra}
        trials.append(Trial(values, with_epochs(values, anchor)))
    return Side(experiment, row, stream, buffer, config, axes, tuple(trials))


def _buffers(experiment: Experiment, row: Row, stream: str) -> tuple[int | None, ...]:
    if stream not in experiment.streams:
        return (None,)
    return row.buffers or experiment.buffers or (None,)


def _with_given(
    experiment: Experiment,
    row: Row,
    stream: str,
    buffer: int | None,
    protocol: Protocol,
    given: Mapping[str, Any],
) -> tuple[Row, Config]:
    """Return the row with what is given for all rows, as far as it has such settings, and its complete settings."""
    config = plan_one(experiment, row, stream, buffer, 0, protocol.scale).resolved.config
    mine = {name: value for name, value in given.items() if _has(config, name)}
    row = row.model_copy(update={"settings": {**row.settings, **mine}})
    return row, plan_one(experiment, row, stream, buffer, 0, protocol.scale).resolved.config


def _has(config: Config, name: str) -> bool:
    return any(name in (full, full.rpartition(".")[2]) for full in config.flat())


def _check_known(names: Mapping[str, Any], configs: Sequence[Config], noun: str) -> None:
    for name in names:
        if not any(_has(config, name) for config in configs):
            every = {full for config in configs for full in config.flat() if "." in full}
            raise UserError(f"no row has the {noun} '{name}'; {did_you_mean(name, every)}")


def _check_tune_set(protocol: Protocol, space: Axes, presets: Collection[tuple[Row, Config]]) -> None:
    """Check that the settings of the trials alone exist in every row, and that none of them is searched."""
    for name in parse_assignments(protocol.tune_set):
        for row, config in presets:
            if name not in config.flat():
                raise UserError(
                    f"--tune-set {name}: {config.title} has no such setting; {did_you_mean(name, config.flat())}"
                )
            if name in axes_of(space, config, config) and name not in fixed_names(row, config):
                raise UserError(
                    f"--tune-set {name}: it is searched; leave it out, or fix it for all rows with --set"
                )


def _stem(name: str) -> str:
    return Path(name).stem if is_file(name) else name
