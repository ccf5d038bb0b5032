"""Which groups a figure shows, and how each is drawn throughout the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc.report.chart import Series
from gplasc.report.groups import Group, Panel
from gplasc.report.wording import known
from gplasc.results.aggregate import Spread

LINES = 16
"""Lines in one figure at most: more cannot be told apart."""


ROWS = 40
"""Rows of intervals in one figure at most."""


def line_styles(panel: Panel) -> dict[str, tuple[int, bool]]:
    """Return the look of each group's line: a base and its plug-in variant share a color, the base is hollow."""
    paired = {id(c.base): c.group for c in panel.comparisons}
    colors: dict[str, int] = {}
    result: dict[str, tuple[int, bool]] = {}
    titles = [group.title for group in panel.groups]
    for group in panel.groups:
        # Variants of one title cannot share the color of their method.
        key = group.method if titles.count(group.title) == 1 else group.label
        color = colors.setdefault(key, len(colors))
        result[group.label] = (color, id(group) in paired)
    return result


def spread_series(
    name: str, x: Sequence[float | str], spreads: Sequence[Spread], color: int = 0, *, hollow: bool = False
) -> Series:
    """Means at their places, with one standard deviation either way; None where there is no number."""
    low, high = (tuple(known(s.mean + sign * s.std) for s in spreads) for sign in (-1, 1))
    return Series(name, tuple(x), tuple(known(s.mean) for s in spreads), low, high, color, hollow)


def group_line(
    group: Group, points: Sequence[tuple[float, Spread]], styles: dict[str, tuple[int, bool]]
) -> Series:
    """A group as a line in its look."""
    color, hollow = styles[group.label]
    return spread_series(group.label, [x for x, _ in points], [s for _, s in points], color, hollow=hollow)


def rank(group: Group) -> float:
    """Class-IL accuracy, below all others where it is unknown."""
    mean = group.spread("class_il", "final_accuracy").mean
    return mean if math.isfinite(mean) else -1.0


def drawn_groups(panel: Panel, limit: int) -> tuple[Group, ...]:
    """The groups that a figure shows, in the panel's order: all, or the `limit` best in class-IL accuracy."""
    best = sorted(panel.groups, key=rank, reverse=True)[:limit]
    return tuple(group for group in panel.groups if any(group is chosen for chosen in best))


def say_limit(panel: Panel, limit: int) -> str:
    """What a subsection must say when its figures do not show all groups."""
    if len(panel.groups) <= limit:
        return ""
    return f"Figures show the {limit} best of {len(panel.groups)} in class-IL accuracy; tables have all."


def folded(panels: Sequence[Panel]) -> bool:
    """Whether there are so many panels that their subsections had better be opened one at a time."""
    return len(panels) > 4
