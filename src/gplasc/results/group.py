"""Runs that differ in their seed alone: what was measured of them, by seed, and how it compares with another group."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gplasc.results.record import Record
from gplasc.results.statistics import Difference, Spread, spread
from gplasc.settings.components import is_file
from gplasc.settings.presets import row_name

_DIGITS = {"overlap": 3, "silhouette": 3, "seconds": 1}


@dataclass(frozen=True)
class Measure:
    """What is measured of a run: a metric in a scenario, or at a point (a task, a pair of tasks).

    The label is for people: measures that differ in their label alone are equal.
    """

    metric: str
    label: str = field(default="", compare=False)
    scenario: str | None = None
    point: str | None = None

    @property
    def digits(self) -> int:
        """Decimals to show."""
        return _DIGITS.get(self.metric, 2)


CLASS_IL = Measure("final_accuracy", "class-IL", scenario="class_il")
"""What methods are compared and chosen by."""


def measured(record: Record) -> dict[Measure, float]:
    """Return every metric of a run that is finite, and its seconds."""
    numbers = {
        Measure(name, scenario=scenario): value
        for scenario, metrics in record.metrics.items()
        for name, value in metrics.items()
        if math.isfinite(value)
    }
    return numbers | {Measure("seconds"): record.seconds}


@dataclass(frozen=True)
class Group:
    """Runs with equal settings except for the seed."""

    labels: Mapping[str, Any]  # its place in a table: stream, buffer, row, ...
    values: Mapping[Measure, Mapping[int, float]]  # by seed; a seed without the number is left out
    runs: Mapping[int, str] = field(default_factory=dict)  # ids by seed, also of runs that failed
    settings: Mapping[str, Any] = field(default_factory=dict)  # all but the seed, under dotted names
    bases: tuple[str, ...] = ()  # names of the rows that it is compared with
    records: tuple[Record, ...] = ()  # where they are at hand, in the order of their seeds

    @classmethod
    def of(cls, records: Iterable[Record], labels: Mapping[str, Any] | None = None) -> Group:
        """Build a group of records, with all that was measured."""
        ordered = tuple(sorted(records, key=lambda record: (record.seed, record.run_id)))
        settings = {name: value for name, value in ordered[0].flat.items() if name != "seed"}
        runs = {record.seed: record.run_id for record in ordered}
        values = by_measure((record.seed, measured(record)) for record in ordered)
        return cls(labels or {}, values, runs, settings, records=ordered)

    @property
    def missing(self) -> int:
        """Number of seeds without any number, because their run failed."""
        return len(self.runs.keys() - set().union(*self.values.values()))

    @property
    def row(self) -> str:
        """Its row, or what else names it, as tables and pictures call it."""
        row = self.labels.get("row", ", ".join(map(str, self.labels.values())))
        return row_name(str(row), self.settings)

    @property
    def is_own(self) -> bool:
        """Whether its method or a plug-in is a file of the user's own, so that no published number is of it."""
        return any(map(is_file, (self.settings.get("method", ""), *self.settings.get("plugins", ()))))

    @property
    def first(self) -> Record:
        """First record of the group."""
        return self.records[0]

    def base_among(self, groups: Iterable[Group], number: int = 0) -> Group | None:
        """Return the first (or another) group that this one is compared with: its base with the same other labels."""
        wanted = [{**self.labels, "row": name} for name in self.bases[number : number + 1]]
        return next((group for group in groups if group.labels in wanted), None)

    def gain(self, measure: Measure, groups: Iterable[Group], number: int = 0) -> Difference | None:
        """Return the paired difference to a base among these groups; None without a base or without pairs."""
        base = self.base_among(groups, number)
        difference = self.difference(measure, base) if base else None
        return difference if difference and difference.count else None

    def by_seed(self, measure: Measure) -> Mapping[int, float]:
        """Return the numbers of a measure by seed; empty if nothing was measured."""
        return self.values.get(measure, {})

    def spread(self, measure: Measure) -> Spread:
        """Return mean, standard deviation and number of seeds of a measure."""
        return spread(list(self.by_seed(measure).values()))

    def difference(self, measure: Measure, base: Group) -> Difference:
        """Return the paired difference to another group over the seeds that both have."""
        return Difference.of(base.by_seed(measure), self.by_seed(measure))

    def ratio(self, measure: Measure, base: Group) -> float | None:
        """Return the sum over the seeds that both groups have, divided by that of the base; None if that is 0."""
        ours, theirs = self.by_seed(measure), base.by_seed(measure)
        both = sorted(set(ours) & set(theirs))
        total = sum(theirs[seed] for seed in both)
        return sum(ours[seed] for seed in both) / total if total else None

    def matrix(self, scenario: str) -> NDArray[np.float64]:
        """Return the accuracy matrix averaged over the records; NaN where no record has a value."""
        matrices = np.array([record.matrix[scenario] for record in self.records], dtype=float)
        return np.asarray(np.ma.masked_invalid(matrices).mean(axis=0).filled(np.nan))

    def geometry(self, after: int, name: str) -> list[Any]:
        """Return the value `name` of each record's geometry after task number `after`, counted from 0."""
        rows = [record["geometry"][after] for record in self.records if len(record.geometry) > after]
        return [row[name] for row in rows if row.get(name) is not None]


def differing_settings(groups: Sequence[Group], but: Iterable[str] = ()) -> dict[str, dict[str, list[str]]]:
    """Return the rows of each value of the settings that several groups have and that are not the same in all.

    Method and plug-ins are what is compared; ``but`` names further settings, by their full name or its last part.
    """
    but = {"method", "plugins", *but}
    by_name: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        for name, value in group.settings.items():
            if not {name, name.rpartition(".")[2]} & but:
                rows = by_name.setdefault(name, {}).setdefault(str(value), [])
                rows.append(group.row)
    return {name: values for name, values in by_name.items() if len(values) > 1}


def say_differing(groups: Sequence[Group], but: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each setting of `differing_settings`."""
    return [
        f"Rows differ in {name}: "
        + ", ".join(f"{value} ({'; '.join(dict.fromkeys(rows))})" for value, rows in values.items())
        + "."
        for name, values in differing_settings(groups, but).items()
    ]


def group_records(records: Iterable[Record]) -> tuple[list[Group], list[str]]:
    """Group runs with equal data, code and settings but for the seed, and name each run that is left out."""
    same: dict[str, dict[int, Record]] = {}
    left_out = []
    for record in records:
        settings = {name: value for name, value in record.flat.items() if name != "seed"}
        first, usual = (
            "train.first_epochs",
            settings.get("train.epochs"),
        )  # without it, the first task has as many
        settings[first] = settings.get(first) or usual
        stream = (record.stream.classes_per_task, record.stream.class_names, record.stream.test_samples)
        key = json.dumps([settings, record.settings.identity, record.title, stream], sort_keys=True)
        kept = same.setdefault(key, {}).setdefault(record.seed, record)
        if kept.run_id != record.run_id:
            left_out.append(f"the run {record.run_id}, which has data, settings and seed of {kept.run_id}")
        elif kept.matrix != record.matrix:
            left_out.append(f"another result of the run {record.run_id}")
    return [Group.of(runs.values()) for runs in same.values()], left_out


def varying_settings(groups: Sequence[Group]) -> list[str]:
    """Return the names of settings that are not the same in all groups (a missing one counts as a value)."""
    names = dict.fromkeys(name for group in groups for name in group.settings)
    values = {name: [group.settings.get(name, ...) for group in groups] for name in names}
    return [name for name in names if any(value != values[name][0] for value in values[name])]


def by_measure(numbers: Iterable[tuple[int, Mapping[Measure, float]]]) -> dict[Measure, dict[int, float]]:
    """Return the values of each measure by seed, of seeds with their numbers."""
    values: dict[Measure, dict[int, float]] = {}
    for seed, own in numbers:
        for measure, value in own.items():
            values.setdefault(measure, {})[seed] = value
    return values


def finite(values: Iterable[Any]) -> list[float]:
    """Return the values that are finite numbers: records hold None, and NaN where a run diverged."""
    return [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
