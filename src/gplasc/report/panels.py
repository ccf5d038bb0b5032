"""Panels: groups of runs that belong in one table, with a label for each and the group that it is compared with."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from gplasc.published import Published, lookup, published, tables
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


class Comparison(NamedTuple):
    """A group with plug-ins, and the group of the same method without."""

    group: Group
    base: Group
    unlike: tuple[str, ...]
    """Settings in which the two differ, other than the plug-ins and their options."""

    def gain(self, measure: Measure = ACCURACY) -> Difference:
        """Return the paired difference over the seeds that both have."""
        return self.group.difference(measure, self.base)


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

    @property
    def scale_notes(self) -> tuple[str, ...]:
        """What the numbers of a scale are worth; at cpu scale only where there are published ones."""
        known = self.scale == "smoke" or any(number.stream == self.stream for number in published())
        return (_SCALE_NOTES[self.scale],) if known and self.scale in _SCALE_NOTES else ()

    @property
    def num_tasks(self) -> int:
        """Number of tasks learned."""
        return len(self.groups[0].first.stream.test_samples)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Each group with plug-ins and its base, where the panel holds one."""
        pairs = [_find_base(group, self.groups) for group in self.groups if group.first.plugins]
        return tuple(pair for pair in pairs if pair is not None)

    def comparison(self, group: Group) -> Comparison | None:
        """The comparison of a group, or None."""
        return next((pair for pair in self.comparisons if pair.group is group), None)

    def gain(self, group: Group, measure: Measure) -> Difference | None:
        """The paired difference of a group to its base; None without a base."""
        pair = self.comparison(group)
        return pair.gain(measure) if pair else None

    def best(self, limit: int) -> tuple[Group, ...]:
        """The `limit` groups of highest class-IL accuracy (all, if there are no more), in the panel's order."""
        ranked = sorted(self.groups, key=rank, reverse=True)[:limit]
        return tuple(group for group in self.groups if any(group is chosen for chosen in ranked))

    def published(self, group: Group, measure: Measure) -> list[Published]:
        """Every published number that this group's would reproduce at paper scale, one a table of the paper."""
        numbers = [self._lookup(table, group, measure) for table in tables()]
        return list(dict.fromkeys(number for number in numbers if number is not None))

    def published_gain(self, number: Published, group: Group, measure: Measure) -> float | None:
        """The published number of a group minus that of its base in the same table; None where it has none."""
        pair = self.comparison(group)
        base = self._lookup(number.table, pair.base, measure) if pair else None
        return None if base is None else number.mean - base.mean

    def _lookup(self, table: str, group: Group, measure: Measure) -> Published | None:
        return lookup(
            table,
            group.first.title,
            stream=self.stream,
            buffer=self.buffer,
            scenario=measure.scenario,
            metric=measure.metric,
        )

    @property
    def limit_note(self) -> str:
        """What a reader must know when figures do not show all lines."""
        if len(self.groups) <= LINES:
            return ""
        return f"Figures show the {LINES} best of {len(self.groups)} in class-IL accuracy; tables have all."

    @cached_property
    def looks(self) -> dict[str, tuple[int, bool]]:
        """Color and hollowness of each line: a base is hollow and shares the color of its first plug-in variant."""
        bases = {id(pair.base) for pair in self.comparisons}
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


def _find_base(group: Group, groups: Sequence[Group]) -> Comparison | None:
    """Find the group of the same method without plug-ins whose other settings are nearest."""
    first = group.first
    own = {name for name in group.settings if "." in name and name.split(".")[0] in first.plugins}
    candidates = []
    for other in groups:
        if other.first.method == first.method and not other.first.plugins:
            names = [name for name in group.settings if name != "plugins" and name not in own]
            unlike = tuple(n for n in names if other.settings.get(n) != group.settings[n])
            candidates.append(Comparison(group, other, unlike))
    return min(candidates, key=lambda pair: len(pair.unlike), default=None)


def _labeled(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Name each group by its title and what tells it apart; a base stands before its variants."""
    named = []
    by_title: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_title[group.first.title].append(group)
    for title, same in sorted(by_title.items()):
        differing = [name for name in varying_settings(same) if name not in _IDENTITY]
        # What a preset changed along with a given setting says nothing new, unless nothing was given.
        given = [n for n in differing if any(g.first.sources.get(n) == "given" for g in same)] or differing
        for group in sorted(same, key=lambda g: [_sort_key(g.settings.get(n)) for n in given]):
            parts = [f"{n.rpartition('.')[2]} {show_value(group.settings.get(n))}" for n in given]
            named.append(Group.of(group.records, {"row": ", ".join([title, *parts])}))
    return tuple(named)


def _sort_key(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if number else (1, 0.0, show_value(value))
