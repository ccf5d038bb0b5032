"""Runs that differ only in their seed are one group; groups of one stream, scale and memory are one panel."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.wording import file_name
from gplasc.results.record import load_records
from gplasc.results.statistics import Difference, Spread, paired_difference, spread
from gplasc.settings.parse import flatten

METRICS = {
    "final_accuracy": "final accuracy",
    "average_incremental_accuracy": "average incremental accuracy",
    "forgetting": "forgetting",
}
_NEEDED = {"run_id": str, "title": str, "settings": dict, "stream": dict, "matrix": dict, "metrics": dict}
_OPTIONAL = {"sources": dict, "geometry": list, "timings": list, "environment": dict, "deviations": dict}
_IDENTITY = ("stream", "scale", "buffer", "method", "plugins", "seed")


def _settings_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a record under dotted names, without the digests of code and data."""
    return flatten({name: value for name, value in record["settings"].items() if name != "identity"})


def show_value(value: Any) -> str:
    """A setting as people read it.

    >>> show_value(None), show_value([60, 75]), show_value(0.1), show_value(True)
    ('none', '60, 75', '0.1', 'true')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(show_value(part) for part in value) or "none"
    return str(value)


def finite(values: Iterable[Any]) -> list[float]:
    """The values that are numbers: records hold None, and NaN where a run diverged."""
    return [float(v) for v in values if isinstance(v, (int, float)) and math.isfinite(v)]


@dataclass(frozen=True)
class Group:
    """Runs with equal settings but for the seed, in the order of their seeds."""

    records: tuple[dict[str, Any], ...]
    label: str = ""
    """The title, and the settings by which the group differs from others with this title in its panel."""

    @property
    def first(self) -> dict[str, Any]:
        """The record that speaks for all where they agree."""
        return self.records[0]

    @property
    def title(self) -> str:
        """The method with its plug-ins."""
        return str(self.first["title"])

    @property
    def method(self) -> str:
        """The method alone, as the title writes it."""
        return self.title.split("+")[0]

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-ins' names."""
        return tuple(self.first["settings"].get("plugins") or ())

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Every setting but the seed, under its dotted name."""
        flat = _settings_of(self.first)
        flat.pop("seed", None)
        return flat

    @property
    def sources(self) -> dict[str, str]:
        """Where each setting comes from."""
        return self.first.get("sources") or {}

    @property
    def num_tasks(self) -> int:
        """Number of tasks learned."""
        return len(self.first["matrix"]["class_il"])

    def values(self, scenario: str, metric: str) -> dict[int, float]:
        """The metric of each run that has one, by seed."""
        found = {r["settings"].get("seed", 0): r["metrics"][scenario].get(metric) for r in self.records}
        return {seed: float(v) for seed, v in found.items() if finite([v])}

    def spread(self, scenario: str, metric: str) -> Spread:
        """Mean, standard deviation and number of runs of a metric."""
        return spread(list(self.values(scenario, metric).values()))

    def matrix(self, scenario: str) -> list[list[float | None]]:
        """The accuracy matrix averaged over the runs; None where no run has a value."""
        return mean_matrix([record["matrix"][scenario] for record in self.records])

    def geometry(self, after: int, name: str) -> list[Any]:
        """What the runs' diagnosis after task number `after` says about `name`; runs without it are left out."""
        rows = [record.get("geometry") or [] for record in self.records]
        return [row[after][name] for row in rows if len(row) > after and row[after].get(name) is not None]


def mean_matrix(matrices: Sequence[Sequence[Sequence[float | None]]]) -> list[list[float | None]]:
    """Average equally shaped matrices entry by entry over the values that are there.

    >>> mean_matrix([[[1.0, None]], [[3.0, None]]])
    [[2.0, None]]
    """
    result: list[list[float | None]] = []
    for rows in zip(*matrices, strict=True):
        line: list[float | None] = []
        for entries in zip(*rows, strict=True):
            there = finite(entries)
            line.append(sum(there) / len(there) if there else None)
        result.append(line)
    return result


@dataclass(frozen=True)
class Comparison:
    """A group with plug-ins beside the same method without."""

    group: Group
    base: Group
    unlike: tuple[str, ...]
    """Settings of the method in which the two differ, beside the plug-ins and their options."""

    def difference(self, scenario: str, metric: str) -> Difference:
        """Paired difference of the metric over the seeds that both have."""
        return paired_difference(self.base.values(scenario, metric), self.group.values(scenario, metric))

    def overhead(self) -> Spread:
        """How many times as long the training phase takes with the plug-ins, over the seeds that both have.

        Runs are compared only when they ran on the same device, processor and number of threads.
        """
        base = {r["settings"].get("seed", 0): r for r in self.base.records}
        ratios = []
        for record in self.group.records:
            other = base.get(record["settings"].get("seed", 0))
            if other is None or _machine(record) != _machine(other):
                continue
            mine, without = phase_seconds(record).get("train", 0.0), phase_seconds(other).get("train", 0.0)
            if without > 0:
                ratios.append(mine / without)
        return spread(ratios)


def _machine(record: Mapping[str, Any]) -> tuple[Any, ...]:
    environment = record.get("environment") or {}
    return tuple(environment.get(name) for name in ("device", "processor", "threads"))


def phase_seconds(record: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of each phase, summed over the tasks."""
    total: dict[str, float] = defaultdict(float)
    for phases in record.get("timings") or []:
        for name, seconds in phases.items():
            total[name] += seconds
    return dict(total)


@dataclass(frozen=True)
class Panel:
    """What may stand in one table: groups that learned the same tasks at the same scale with the same memory."""

    stream: str
    scale: str
    buffer: int
    classes_per_task: tuple[int, ...]
    groups: tuple[Group, ...]
    tasks_vary: bool = False
    """Whether the report also holds this stream with another division into tasks."""

    @property
    def title(self) -> str:
        """Stream, memory and scale, and the tasks where they need saying."""
        tasks = f", {len(self.classes_per_task)} tasks" if self.tasks_vary else ""
        return f"{self.stream}{tasks}, memory {self.buffer}, {self.scale} scale"

    @property
    def name(self) -> str:
        """The folder of its tables and figures."""
        stream = file_name(self.stream.rstrip("/").rpartition("/")[2], 24)  # of a path the last part
        if self.tasks_vary or stream != self.stream:
            identity = repr((self.stream, self.classes_per_task)).encode()
            stream = f"{stream}-{hashlib.sha256(identity).hexdigest()[:4]}"
        return f"{stream}-{self.buffer}-{file_name(self.scale)}"

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Each group with plug-ins beside its base, where the panel holds one."""
        found = []
        for group in self.groups:
            base = _find_base(group, self.groups) if group.plugins else None
            if base is not None:
                found.append(base)
        return tuple(found)

    def comparison(self, group: Group) -> Comparison | None:
        """The comparison of a group, or None."""
        return next((c for c in self.comparisons if c.group is group), None)

    def gain(self, group: Group, scenario: str, metric: str) -> Difference | None:
        """The paired difference of a group to its base; None without a base."""
        comparison = self.comparison(group)
        return comparison.difference(scenario, metric) if comparison else None

    @property
    def contestants(self) -> tuple[Group, ...]:
        """The groups that can be the best: learning all tasks at once is the upper bound."""
        return tuple(group for group in self.groups if group.method != "joint")


def _find_base(group: Group, groups: Sequence[Group]) -> Comparison | None:
    """Find the group of the same method without plug-ins whose other settings are nearest."""
    candidates = []
    for other in groups:
        if other.plugins or other.settings.get("method") != group.settings.get("method"):
            continue
        own = {name.split(".")[0] for name in group.settings if "." in name} & set(group.plugins)
        unlike = tuple(
            name
            for name, value in group.settings.items()
            if name != "plugins" and name.split(".")[0] not in own and other.settings.get(name) != value
        )
        candidates.append(Comparison(group, other, unlike))
    return min(candidates, key=lambda c: len(c.unlike)) if candidates else None


def make_panels(records: Sequence[dict[str, Any]]) -> list[Panel]:
    """Sort records into panels and groups; raise UserError for a record that is none."""
    groups: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for record in records:
        check_record(record)
        settings = _settings_of(record)
        settings.pop("seed", None)
        key = json.dumps(
            [
                settings,
                record["title"],
                record["stream"].get("classes_per_task"),
                len(record["matrix"]["class_il"]),
            ],
            sort_keys=True,
        )
        groups[key][record["run_id"]] = record
    panels: dict[tuple[str, str, int, tuple[int, ...]], list[Group]] = defaultdict(list)
    for runs in groups.values():
        ordered = sorted(runs.values(), key=lambda r: (r["settings"].get("seed", 0), r["run_id"]))
        group = Group(tuple(ordered))
        settings = group.settings
        tasks = tuple(group.first["stream"].get("classes_per_task") or ())
        panels[
            (str(settings.get("stream")), str(settings.get("scale")), int(settings.get("buffer") or 0), tasks)
        ].append(group)
    divisions: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for stream, _, _, tasks in panels:
        divisions[stream].add(tasks)
    return [
        Panel(
            stream,
            scale,
            buffer,
            tasks,
            _labeled(panels[stream, scale, buffer, tasks]),
            len(divisions[stream]) > 1,
        )
        for stream, scale, buffer, tasks in sorted(panels)
    ]


def check_record(record: Any) -> None:
    """Check that something is the record of a complete run.

    Raises:
        UserError: If it is not; the message says what is missing.
    """
    if not isinstance(record, dict):
        raise UserError(
            f"{repr(record)[:40]} is not the record of a run; delete its record.json and run again"
        )
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(record.get(name), kind)]
    wrong += [
        n for n, kind in _OPTIONAL.items() if record.get(n) is not None and not isinstance(record[n], kind)
    ]
    wrong = wrong or [
        *(f"matrix.{s}" for s in SCENARIOS if not _is_matrix(record["matrix"].get(s))),
        *(f"metrics.{s}" for s in SCENARIOS if not isinstance(record["metrics"].get(s), dict)),
    ]
    if wrong:
        raise UserError(
            f"the record of run {record.get('run_id', 'without a name')} lacks {', '.join(wrong)}, so it was not "
            "written by this version of gplasc; delete its record.json and run again"
        )


def _is_matrix(matrix: Any) -> bool:
    return (
        isinstance(matrix, list)
        and bool(matrix)
        and all(isinstance(row, list) and len(row) == len(matrix) for row in matrix)
    )


def load_runs(folders: Sequence[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """Read every record in or below the folders; one that cannot be used does not stop the others.

    Runs that were evaluated on a validation split are left out if there are others.

    Returns:
        The records, each run once, and a sentence for every file that was skipped.
    """
    records, skipped = load_records(folders)
    found = [record.to_dict() for record in records]
    on_test = [record for record in found if not _is_trial(record)]
    if on_test and len(on_test) < len(found):
        skipped.append(
            f"{len(found) - len(on_test)} runs that were evaluated on a validation split, as trials of a search are"
        )
        found = on_test
    return found, skipped


def _is_trial(record: Mapping[str, Any]) -> bool:
    """Whether a run was evaluated on a validation split, so that its numbers stand beside none of the test split."""
    data = record["settings"].get("data")
    return isinstance(data, Mapping) and data.get("evaluate_on") == "validation"


def _labeled(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Name each group; a base stands before its variants, methods in alphabetical order."""
    named = []
    by_title: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_title[group.title].append(group)
    for title, same in sorted(by_title.items()):
        differing = [name for name in varying_settings(same) if name not in _IDENTITY]
        # What a preset changed along with a given setting says nothing new, unless nothing was given.
        given = [n for n in differing if any(g.sources.get(n) == "given" for g in same)] or differing
        for group in sorted(same, key=lambda g: [_sort_key(g.settings.get(n)) for n in given]):
            parts = [f"{n.rpartition('.')[2]} {show_value(group.settings.get(n))}" for n in given]
            named.append(replace(group, label=", ".join([title, *parts])))
    return tuple(named)


def _sort_key(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (0, float(value), "") if number else (1, 0.0, show_value(value))


def varying_settings(groups: Sequence[Group]) -> list[str]:
    """Names of the settings that are not the same in all groups (a missing one counts as a value)."""
    names = list(dict.fromkeys(name for group in groups for name in group.settings))
    absent = object()
    return [
        name
        for name in names
        if any(g.settings.get(name, absent) != groups[0].settings.get(name, absent) for g in groups[1:])
    ]
