"""Panels: groups of runs that belong in one table, with a label for each and the group that it is compared with."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gplasc.published import Published, published
from gplasc.report.wording import file_name, show_value
from gplasc.results.group import CLASS_IL, Group, Measure, group_records, varying_settings
from gplasc.results.record import Record
from gplasc.results.statistics import Difference

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
    """Groups that learned the same data at the same scale with the same memory; ``labels["row"]`` names a group."""

    stream: str
    scale: str
    buffer: int
    classes_per_task: tuple[int, ...]
    data: str  # digest
    groups: tuple[Group, ...]
    detail: str = ""  # what tells its stream from others of this name in the report

    @property
    def title(self) -> str:
        """Stream, memory and scale, at paper scale with what was changed of the published protocol."""
        names = self.changed if self.scale == "paper" else []
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        changed = f", changed: {', '.join(names[:4])}{more}" if names else ""
        return f"{self.stream}{self.detail}, memory {self.buffer}, {self.scale} scale{changed}"

    @property
    def changed(self) -> list[str]:
        """Every setting that was given in place of the preset, in any run."""
        return list(dict.fromkeys(name for _, record in self.runs for name in record.changed))

    @property
    def name(self) -> str:
        """The folder of its tables and figures, the same whatever else is in the report."""
        stream = file_name(self.stream.rstrip("/").rpartition("/")[2], 24)  # of a path the last part
        identity = repr((self.stream, self.classes_per_task, self.data)).encode()
        digest = hashlib.sha256(identity).hexdigest()[:4]
        return f"{stream}-{digest}-{self.buffer}-{file_name(self.scale)}"

    @property
    def scale_notes(self) -> tuple[str, ...]:
        """What the numbers of a scale are worth; at cpu scale only where there are published ones."""
        if self.scale == "paper" and self.changed:
            return (f"{self.title}: these runs do not follow the published protocol.",)
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

    def gain(self, group: Group, measure: Measure = CLASS_IL) -> Difference | None:
        """The paired difference of a group to its base; None without a base or without common seeds."""
        return group.gain(measure, self.groups)

    def best(self, limit: int) -> tuple[Group, ...]:
        """The `limit` groups of highest class-IL accuracy (all, if there are no more), in the panel's order."""
        ranked = sorted(self.groups, key=rank, reverse=True)[:limit]
        return tuple(group for group in self.groups if any(group is chosen for chosen in ranked))

    def published(self, group: Group, measure: Measure, table: str = "") -> list[Published]:
        """Every published number that this group's would reproduce at paper scale, by default of all tables.

        There is none for settings and files of the user's own, and for a plug-in in another than its published form.
        """
        if group.is_own or any(record.changed for record in group.records):
            return []
        place = {"row": group.first.name, "stream": self.stream, "scenario": measure.scenario}
        return published(table, **place, buffer=self.buffer, metric=measure.metric, point=None)

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
        titles = [group.first.name for group in self.groups]
        colors: dict[str, int] = {}
        looks: dict[str, tuple[int, bool]] = {}
        for group in self.groups:
            row, hollow = group.labels["row"], id(group) in bases
            # Variants of one title cannot share the color of their method.
            key = group.first.title.split("+")[0] if titles.count(group.first.name) == 1 else row
            if (colors.get(key), hollow) in looks.values():
                key = row
            looks[row] = (colors.setdefault(key, len(colors)), hollow)
        return looks


def rank(group: Group) -> float:
    """Class-IL accuracy, below all others where it is unknown."""
    mean = group.spread(CLASS_IL).mean
    return mean if math.isfinite(mean) else -1.0


def make_panels(records: Sequence[Record]) -> list[Panel]:
    """Sort records into groups, see `group_records`, and these into panels."""
    panels: dict[tuple[str, str, int, tuple[int, ...], str], list[Group]] = defaultdict(list)
    for group in group_records(records)[0]:
        given, tasks = group.first.settings, tuple(group.first.stream.classes_per_task)
        data = given.identity.get("data", "")
        panels[given.stream, given.scale, given.buffer, tasks, data].append(group)
    made = []
    for key in sorted(panels):
        # Tasks and data of the streams of this name.
        same = {other[3:] for other in panels if other[0] == key[0]}
        divisions = {tasks for tasks, _ in same}
        detail = f", {len(key[3])} tasks" if len(divisions) > 1 else ""
        if sum(tasks == key[3] for tasks, _ in same) > 1:
            detail += f", data {key[4][:8] or 'unknown'}"
        made.append(Panel(*key, _labeled(panels[key]), detail))
    return made


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
    by_title: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_title[group.first.name].append(group)
    for title, same in sorted(by_title.items()):
        differing = [name for name in varying_settings(same) if name not in _IDENTITY]
        # What a preset changed along with a given setting says nothing new, unless nothing was given.
        given = [n for n in differing if any(n in g.first.changed for g in same)]
        ordered = sorted(same, key=lambda g: [_sort_key(g.settings.get(n)) for n in given or differing])
        labels = [label(title, group, given or differing) for group in ordered]
        if len(set(labels)) < len(labels):
            labels = [label(title, group, differing) for group in ordered]
        for place, (row, group) in enumerate(zip(labels, ordered, strict=True)):
            seen = labels[: place + 1].count(row)  # with equal settings, the code of the user's own differs
            named.append(replace(group, labels={"row": f"{row} ({seen})" if seen > 1 else row}))
    return tuple(replace(group, bases=_nearest_base(group, named)) for group in named)


def label(title: str, group: Group, names: Iterable[str]) -> str:
    """The title with the values that a group has for these settings."""
    parts = [f"{name.rpartition('.')[2]} {show_value(group.settings.get(name))}" for name in names]
    return ", ".join([title, *parts])


def _sort_key(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if number else (1, 0.0, show_value(value))
