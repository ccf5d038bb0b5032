"""The rows of a comparison, on each stream with each buffer, and what is searched for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gplasc.errors import UserError
from gplasc.runs.spec import full_name
from gplasc.settings.components import is_file, short_name
from gplasc.settings.parse import parse_assignments
from gplasc.settings.types import Config
from gplasc.streams import find_stream
from gplasc.study.cell import Cell
from gplasc.study.experiment import Experiment, Row
from gplasc.study.plan import ComparePlan
from gplasc.study.points import NOT_SEARCHED, Axes, axes_of, fair_space, make_trials, parse_axes


@dataclass(frozen=True)
class Contender:
    """A row on a stream with a buffer, with a run of its preset, what is searched, and what is set in each trial.

    Later it has what was chosen (None: no trial was completed), and the bases that it is compared with on test.
    """

    experiment: Experiment
    row: Row
    preset: Cell
    searched: Axes = field(default_factory=dict)
    trials: tuple[Mapping[str, Any], ...] = ({},)
    chosen: Mapping[str, Any] | None = None
    bases: tuple[str, ...] = ()

    @property
    def config(self) -> Config:
        """The settings of the preset."""
        return self.preset.spec.config

    @property
    def place(self) -> tuple[str, int | None]:
        """Stream and buffer, which it has in common with its base."""
        labels: Mapping[str, Any] = self.preset.labels
        return (labels["stream"], labels.get("buffer"))

    @property
    def final(self) -> Config:
        """The chosen settings."""
        return self.cells("test", self.chosen or {}, [0])[0].spec.config

    def adds_to(self, base: Contender) -> bool:
        """Whether this is the base with plug-ins, in the same place."""
        same = (self.row.base, self.row.method, self.place) == (base.row.name, base.row.method, base.place)
        return same and {*base.row.plugins} < {*self.row.plugins}

    def in_settings_of(self, other: Contender) -> Contender:
        """Return this row with all settings that it shares with another one, under a name that says so."""
        name, theirs = f"{self.row.name} (settings of {other.row.name})", other.final.flat()
        both = {setting for setting in self.final.flat() if "." in setting} - {*NOT_SEARCHED}
        shared = {setting: value for setting, value in theirs.items() if setting in both}
        row = self.row.with_settings({**(self.chosen or {}), **shared})
        row = row.model_copy(update={"name": name, "base": None})
        preset = replace(self.preset, labels={**self.preset.labels, "row": name})
        return Contender(self.experiment, row, preset, chosen={})

    def cells(
        self, stage: str, settings: Mapping[str, Any], seeds: Iterable[int], **labels: float
    ) -> list[Cell]:
        """Return runs with further settings and labels."""
        row, (stream, buffer) = self.row.with_settings(settings), self.place
        cells = [self.experiment.cell(row, stream, buffer, seed, self.config.scale) for seed in seeds]
        bases = (*self.bases, *self.row.also) if stage == "test" else cells[0].bases
        return [replace(c, labels={"stage": stage, **c.labels, **labels}, bases=bases) for c in cells]


def plan_contenders(plan: ComparePlan, experiment: Experiment) -> list[Contender]:
    """Return all rows that are compared with what is searched for each, stream by stream."""
    plan.check()
    if experiment.single:
        raise UserError(f"{experiment.name} measures time, which is not tuned; leave out --fair")
    composed = _compose(experiment, plan)
    keep = composed.row_filter(plan.only)
    places = [
        (row, stream, buffer)
        for stream in composed.streams
        for row in composed.rows
        if stream not in experiment.streams or stream in (row.streams or composed.streams)
        for buffer in plan.buffers or experiment.buffers_of(row, stream)
        if keep(row, stream, buffer)
    ]
    places.sort(key=lambda place: (composed.streams.index(place[1]), place[2] or 0))
    if not places:
        raise UserError(f"nothing of {experiment.name} is left by --only; leave it out")
    given = parse_assignments(plan.set)
    contenders = []
    for row, stream, buffer in places:
        config = composed.cell(row, stream, buffer, 0, plan.scale).spec.config
        row = row.with_settings({name: given[name] for name in given if name in _names(config)})
        contenders.append(Contender(composed, row, composed.cell(row, stream, buffer, 0, plan.scale)))
        contenders[-1].preset.spec.require_presets()
    configs = [one.config for one in contenders]
    if plan.tunes and any(config.data.evaluate_on != "test" for config in configs):
        raise UserError(
            "data.evaluate_on=validation: what was chosen on validation is evaluated on test; leave it out, or give "
            "--trials 1, which chooses nothing"
        )
    _check_known("setting", given, configs)
    _check_known("axis", parse_axes(plan.space), configs)
    space = fair_space(plan.space)
    by_place = {(one.row.name, one.place): one.config for one in contenders}
    return [
        _with_trials(one, plan, space, by_place.get((one.row.base or "", one.place), one.config))
        for one in contenders
    ]


def _compose(experiment: Experiment, plan: ComparePlan) -> Experiment:
    """Return the experiment with the streams, methods and plug-ins that a user names in place of its own.

    A method that the experiment lacks becomes a row. Each plug-in becomes a row for each row without plug-ins.
    """
    for stream in plan.streams:
        find_stream(stream)  # a wrong name is one error, not one for each run
    rows = list(experiment.rows)
    if plan.methods:
        some_own = any(map(is_file, plan.methods))
        rows = [row for row in rows if row.method in plan.methods]
        known = {row.method for row in rows if not row.plugins}
        for method in (name for name in plan.methods if name not in known):
            like = plan.like if is_file(method) or not some_own else None
            rows.append(Row(name=short_name(method), method=method, like=like))
    if plan.plugins:
        own = {(row.name, row.plugins): row for row in rows}
        alone, rows = [row for row in rows if not row.plugins], []
        for row in alone:
            rows.append(row)
            for plugin in plan.plugins:
                name = f"{row.name}+{short_name(plugin)}"
                fresh = row.model_copy(update={"name": name, "plugins": (plugin,), "base": row.name})
                rows.append(own.get((name, (plugin,)), fresh))
    rows += plan.rows
    if not rows:
        raise UserError(f"nothing of {experiment.name} is left by --methods; leave it out")
    return experiment.model_copy(update={"rows": tuple(rows), "streams": plan.streams or experiment.streams})


def _with_trials(one: Contender, plan: ComparePlan, space: Axes, anchor: Config) -> Contender:
    """Add what is searched; a row and its base search what they share over the values of the base."""
    if anchor.method != one.config.method:
        anchor = one.config
    own = one.row.settings  # what a row sets itself is not searched
    axes = axes_of(space, one.config, anchor)
    axes = {n: values for n, values in axes.items() if not {n, n.rpartition(".")[2]} & own.keys()}
    for name in {*parse_assignments(plan.tune_set)} & axes.keys():
        raise UserError(f"--tune-set {name}: it is searched; leave it out, or fix it for all rows with --set")
    try:
        trials = make_trials(axes, one.config, anchor, plan.trials, plan.search_seed)
    except UserError as error:
        raise UserError(f"{one.row.name} on {one.preset.labels['stream']}: {error}") from None
    return replace(one, searched=axes, trials=trials)


def with_settings_of_others(contenders: Sequence[Contender]) -> list[Contender]:
    """Add, below each base, a row with the shared settings of each row that adds plug-ins to it, where they differ.

    A row is then compared with its base, and with its base in the settings that both have.
    """
    rows: list[Contender] = []
    bases = {id(one): tuple(filter(None, [one.row.base])) for one in contenders}
    for base in contenders:
        rows.append(base)
        names = {base.final.run_id: base.row.name}
        for other in contenders:
            if base.chosen is not None and other.chosen is not None and other.adds_to(base):
                same = base.in_settings_of(other)
                if names.setdefault(same.final.run_id, same.row.name) == same.row.name:
                    rows.append(same)
                bases[id(other)] = tuple(dict.fromkeys((base.row.name, names[same.final.run_id])))
    return [replace(one, bases=bases.get(id(one), ())) for one in rows]


def _names(config: Config) -> set[str]:
    """Return the full names of the settings and their last parts."""
    return {name for full in config.flat() for name in (full, full.rpartition(".")[2])}


def _check_known(noun: str, names: Iterable[str], configs: Sequence[Config]) -> None:
    every = {full: full for config in configs for full in config.flat() if "." in full}
    for name in names:
        if not any(name in _names(config) for config in configs):
            try:
                full_name(name, every)
            except UserError as error:
                raise UserError(f"no row has the {noun} '{name}'; {str(error).partition('; ')[2]}") from None
