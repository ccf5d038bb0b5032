"""Which groups a figure shows, and how each is drawn throughout the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gplasc.report.charts import Series
from gplasc.report.groups import Group, Panel
from gplasc.report.section import Block, Section, Subsection
from gplasc.report.wording import known
from gplasc.results.statistics import Spread

LINES = 10
"""Lines in one figure at most: more cannot be told apart."""


ROWS = 40
"""Rows of intervals in one figure at most."""


def line_styles(panel: Panel) -> dict[str, tuple[int, bool]]:
    """Return the look of each group's line: a base is hollow and shares its color with its first plug-in variant."""
    paired = {id(c.base): c.group for c in panel.comparisons}
    colors: dict[str, int] = {}
    result: dict[str, tuple[int, bool]] = {}
    titles = [group.title for group in panel.groups]
    for group in panel.groups:
        # Variants of one title cannot share the color of their method.
        key = group.method if titles.count(group.title) == 1 else group.label
        hollow = id(group) in paired
        if (colors.get(key), hollow) in result.values():
            key = group.label
        result[group.label] = (colors.setdefault(key, len(colors)), hollow)
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


def say_limit(panel: Panel) -> str:
    """What a subsection must say when its figures do not show all lines."""
    if len(panel.groups) <= LINES:
        return ""
    return f"Figures show the {LINES} best of {len(panel.groups)} in class-IL accuracy; tables have all."


def panel_section(
    title: str,
    text: str,
    panels: Sequence[Panel],
    make: Callable[[Panel], Sequence[Block]],
    *,
    remark: Callable[[Panel], str] | None = None,
    fold_above: float = 4,
    notes: Sequence[str] = (),
) -> Section | None:
    """A section with a subsection for every panel that has blocks; None without any.

    Args:
        title: Heading.
        text: Explanation.
        panels: All panels of the report.
        make: Returns the blocks of a panel.
        remark: Returns the text of a panel, after its blocks were made.
        fold_above: With more panels than this their subsections are folded.
        notes: Notes of the section.
    """
    parts = tuple(
        Subsection(p.title, tuple(blocks), remark(p) if remark else "", len(panels) > fold_above, p.name)
        for p in panels
        if (blocks := make(p))
    )
    return Section(title, text=text, parts=parts, notes=tuple(dict.fromkeys(notes))) if parts else None
