"""Panels: groups of runs that belong in one table, with a label for each and the group that it is compared with."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gplasc.published import Published, published
from gplasc.report.wording import file_name, show_value
from gplasc.results.group import Group, Measure
from gplasc.results.record import Record
from gplasc.results.statistics import Difference

ACCURACY = Measure("final_accuracy", scenario="class_il")
"""What groups are ranked by."""
LINES = 10
"""Lines in one figure at most: more cannot be told apart."""
ROWS = 40
"""Rows of intervals or bars in one figure at most."""
_SCALE_NOTES = {
    "smoke": "Measured at smoke scale: a few steps on a few small images, to show that everything runs. "
    "The numbers say nothing about the methods.",
    "cpu": "Measured at cpu scale: the same code with a smaller model, fewer epochs or fewer images than the "
    "published protocol. Not a reproduction of published numbers.",
}
_IDENTITY = ("stream", "scale", "buffer", "method", "plugins", "seed")


@dataclass(frozen=True, eq=False)
class Panel:
    """Groups that learned the same tasks at the same scale with the same memory; ``labels["row"]`` names a group."""

    stream: str
    scale: str
    buffer: int
    classes_per_task: tuple[int, ...]
    groups: tuple[Group, ...]
    tasks_vary: bool = False
    """Whether the report also holds this stream with another division into tasks."""

    @property
    def title(self) -> str:
        """Stream, memory and scale, and the tasks where they vary."""
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

    @property
    def scale_notes(self) -> tuple[str, ...]:
        """What the numbers of a scale are worth; at cpu scale only where there are published ones."""
        known = self.scale == "smoke" or any(number.stream == self.stream for number in published())
        return (_SCALE_NOTES[self.scale],) if known and self.scale in _SCALE_NOTES else ()

    @property
    def num_tasks(self) -> int:
        """Number of tasks learned."""
        return len(self.groups[0].first.stream.test_samples)

    @property
    def runs(self) -> list[tuple[Group, Record]]:
        """Every run, with its group."""
        return [(group, record) for group in self.groups for record in group.records]

    @cached_property
    def pairs(self) -> tuple[tuple[Group, Group], ...]:
        """Each group with plug-ins and its base, where the panel holds one."""
        return tuple((group, base) for group in self.groups if (base := self.base(group)))

    def base(self, group: Group) -> Group | None:
        """The group of the same method without plug-ins; None without one."""
        return group.base_among(self.groups)

    def gain(self, group: Group, measure: Measure = ACCURACY) -> Difference | None:
        """The paired difference of a group to its base; None without a base or without common seeds."""
        return group.gain(measure, self.groups)

    def best(self, limit: int) -> tuple[Group, ...]:
        """The `limit` groups of highest class-IL accuracy (all, if there are no more), in the panel's order."""
        ranked = sorted(self.groups, key=rank, reverse=True)[:limit]
        return tuple(group for group in self.groups if any(group is chosen for chosen in ranked))

    def published(self, group: Group, measure: Measure, table: str = "") -> list[Published]:
        """Every published number that this group's would reproduce at paper scale, by default of all tables."""
        place = {"row": group.first.title, "stream": self.stream, "scenario": measure.scenario}
        numbers = published(table, **place, metric=measure.metric, point=None)
        return [number for number in numbers if number.buffer in (self.buffer, None)]

    def published_gain(self, number: Published, group: Group, measure: Measure) -> float | None:
        """The published number of a group minus that of its base in the same table; None where it has none."""
        base = self.base(group)
        theirs = self.published(base, measure, number.table) if base else []
        return number.mean - theirs[0].mean if theirs else None

    @property
    def limit_note(self) -> str:
        """What a reader must know when figures do not show all lines."""
        if len(self.groups) <= LINES:
            return ""
        return f"Figures show the {LINES} best of {len(self.groups)} in class-IL accuracy; tables have all."

    @cached_property
    def looks(self) -> dict[str, tuple[int, bool]]:
        """Color and hollowness of each line: a base is hollow and shares the color of its first plug-in variant."""
        bases = {id(base) for _, base in self.pairs}
        titles = [group.first.title for group in self.groups]
        colors: dict[str, int] = {}
        looks: dict[str, tuple[int, bool]] = {}
        for group in self.groups:
            label, hollow = group.labels["row"], id(group) in bases
            # Variants of one title cannot share the color of their method.
            key = group.first.title.split("+")[0] if titles.count(group.first.title) == 1 else label
            if (colors.get(key), hollow) in looks.values():
                key = label
            looks[label] = (colors.setdefault(key, len(colors)), hollow)
        return looks


def rank(group: Group) -> float:
    """Class-IL accuracy, below all others where it is unknown."""
    mean = group.spread(ACCURACY).mean
    return mean if math.isfinite(mean) else -1.0


def varying_settings(groups: Sequence[Group]) -> list[str]:
    """Names of the settings that are not the same in all groups (a missing one counts as a value)."""
    names = dict.fromkeys(name for group in groups for name in group.settings)
    values = {name: [group.settings.get(name, ...) for group in groups] for name in names}
    return [name for name in names if any(value != values[name][0] for value in values[name])]


def make_panels(records: Sequence[Record]) -> list[Panel]:
    """Sort records into groups that differ in their seeds alone, and these into panels."""
    runs: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        settings = {name: value for name, value in record.flat.items() if name != "seed"}
        key = [settings, record.title, record.stream.classes_per_task, len(record.stream.test_samples)]
        runs[json.dumps(key, sort_keys=True)][record.run_id] = record
    panels: dict[tuple[str, str, int, tuple[int, ...]], list[Group]] = defaultdict(list)
    for same in runs.values():
        group = Group.of(same.values())
        given = group.first.settings
        tasks = tuple(group.first.stream.classes_per_task)
        panels[given.stream, given.scale, given.buffer, tasks].append(group)
    divisions = {stream: {key[-1] for key in panels if key[0] == stream} for stream, *_ in panels}
    return [Panel(*key, _labeled(panels[key]), len(divisions[key[0]]) > 1) for key in sorted(panels)]


def unlike(group: Group, base: Group) -> list[str]:
    """Settings in which a group and its base differ, other than the plug-ins and their options."""
    own = ("plugins", *group.first.plugins)
    return [n for n, v in group.settings.items() if n.split(".")[0] not in own and base.settings.get(n) != v]


def _nearest_base(group: Group, groups: Sequence[Group]) -> tuple[str, ...]:
    """Name the group of the same method without plug-ins whose other settings are nearest."""
    first = group.first
    plain = [other for other in groups if other.first.method == first.method and not other.first.plugins]
    nearest = min(plain, key=lambda base: len(unlike(group, base)), default=None)
    return (nearest.labels["row"],) if nearest and first.plugins else ()


def _labeled(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Name each group by its title and what tells it apart; a base stands before its variants."""
    named: list[Group] = []
    seen: Counter[str] = Counter()
    by_title: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_title[group.first.title].append(group)
    for title, same in sorted(by_title.items()):
        differing = [name for name in varying_settings(same) if name not in _IDENTITY]
        # What a preset changed along with a given setting says nothing new, unless nothing was given.
        given = [n for n in differing if any(g.first.sources.get(n) == "given" for g in same)] or differing
        for group in sorted(same, key=lambda g: [_sort_key(g.settings.get(n)) for n in given]):
            parts = [f"{n.rpartition('.')[2]} {show_value(group.settings.get(n))}" for n in given]
            label = ", ".join([title, *parts])
            seen[label] += 1
            row = f"{label} ({seen[label]})" if seen[label] > 1 else label
            named.append(replace(group, labels={"row": row}))
    return tuple(replace(group, bases=_nearest_base(group, named)) for group in named)


def _sort_key(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if number else (1, 0.0, show_value(value))
