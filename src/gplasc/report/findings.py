"""The answers of the first screen: which method, which gain, how sure, and what the paper says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc.report.groups import Comparison, Panel
from gplasc.report.lines import rank
from gplasc.report.render import Finding
from gplasc.report.sections.paper import find_published, published_gain
from gplasc.report.wording import SEEDS, mark_difference, show_spread, signed
from gplasc.results.statistics import Difference

LIMIT = 6
"""Findings on the first screen at most."""


def headline(panels: Sequence[Panel]) -> list[str]:
    """Return what the page is about, in a few sentences."""
    if not panels:
        return []
    runs = sum(len(group.records) for panel in panels for group in panel.groups)
    groups = sum(len(panel.groups) for panel in panels)
    streams = list(dict.fromkeys(panel.stream for panel in panels))
    where = panels[0].title if len(panels) == 1 else ", ".join(streams[:6]) + " and more" * (len(streams) > 6)
    words = [f"{_count(runs, 'run')} of {_count(groups, 'configuration')} on {where}."]
    gains: dict[str, list[Difference]] = {}
    for comparison in (c for panel in panels for c in panel.comparisons):
        gain = comparison.difference("class_il", "final_accuracy")
        if gain.count:
            gains.setdefault(" and ".join(comparison.group.plugins), []).append(gain)
    if sum(map(len, gains.values())) > LIMIT:  # not all of them are shown one by one
        words += [_overview(plugin, found) for plugin, found in gains.items()]
    return words


def _overview(plugin: str, gains: Sequence[Difference]) -> str:
    """Return the gains of one plug-in over all methods and streams, in a sentence."""
    marks = [mark_difference(gain).mark for gain in gains]
    up, down = marks.count("better"), marks.count("worse")
    mean = sum(g.mean for g in gains) / len(gains)
    return (
        f"With {plugin}, class-IL accuracy changes by {signed(mean)} points on average over "
        f"{_count(len(gains), 'comparison')}; {up} are a certain gain and {down} a certain loss (95 % interval of "
        f"at least {SEEDS} pairs of seeds without 0)."
    )


def find_findings(panels: Sequence[Panel]) -> list[Finding]:
    """Return the gains of the plug-ins, or the best accuracy where there are none: at most `LIMIT`.

    The best method of each panel comes first, then the second of each, and so on; gains precede accuracies.
    """
    ranked = []
    for panel in panels:
        gains = [c for c in panel.comparisons if c.difference("class_il", "final_accuracy").count]
        best = sorted(gains, key=lambda c: -rank(c.group))
        found = [_gain(panel, comparison) for comparison in best] or _best(panel)
        ranked += [(place, not gains, finding) for place, finding in enumerate(found)]
    return [finding for *_, finding in sorted(ranked, key=lambda entry: entry[:2])[:LIMIT]]


def _gain(panel: Panel, comparison: Comparison) -> Finding:
    gain = comparison.difference("class_il", "final_accuracy")
    group, base = comparison.group, comparison.base
    means = [show_spread(g.spread("class_il", "final_accuracy")) for g in (base, group)]
    mark = mark_difference(gain).mark
    return Finding(
        f"{signed(gain.mean)}",
        f"points of class-IL accuracy: {group.label}",
        f"{panel.title}: {means[0]} without, {means[1]} with the plug-in{_other_settings(comparison)}",
        _certainty(gain),
        _paper(panel, comparison),
        "better" if mark == "better" else "worse" if mark == "worse" else "",
    )


def _other_settings(comparison: Comparison) -> str:
    """Say that more than the plug-in differs, as it does where both sides were tuned."""
    if not comparison.unlike:
        return ""
    count = len(comparison.unlike)
    return f"; {_count(count, 'other setting')} also differ{'s' if count == 1 else ''}, see the notes below"


def _certainty(gain: Difference) -> str:
    if not math.isfinite(gain.low):
        return "One pair of seeds: no interval, so this may be chance."
    text = (
        f"95 % interval {signed(gain.low)} to {signed(gain.high)} (Student's t, {gain.count} pairs of seeds)"
    )
    if gain.count < SEEDS:
        return f"{text}; fewer than {SEEDS} pairs are not enough to be sure."
    if gain.low <= 0 <= gain.high:
        return f"{text}; it includes 0, so this may be chance."
    return f"{text}; it does not include 0."


def _paper(panel: Panel, comparison: Comparison) -> str:
    for number in find_published(comparison.group, panel, "class_il", "final_accuracy"):
        gain = published_gain(number, comparison, panel, "class_il", "final_accuracy")
        if gain is not None:
            scale = "" if panel.scale == "paper" else ", at full scale"
            return f"The paper: {signed(gain)} ({number.label}{scale})."
    return "" if panel.scale == "smoke" else "The paper has no number for this."


def _best(panel: Panel) -> list[Finding]:
    groups = [group for group in panel.contestants if rank(group) >= 0]
    if not groups:
        return []
    best = max(groups, key=rank)
    value = best.spread("class_il", "final_accuracy")
    of = f"the best of {len(groups)}" if len(groups) > 1 else "the only method"
    published = find_published(best, panel, "class_il", "final_accuracy")
    scale = "" if panel.scale == "paper" else ", at full scale"
    return [
        Finding(
            f"{value.mean:.2f} %",
            f"class-IL accuracy: {best.label}",
            f"{panel.title}: {of}",
            f"Standard deviation {value.std:.2f} over {value.count} seeds."
            if value.count > 1
            else "One seed.",
            f"The paper: {published[0]} ({published[0].label}{scale})." if published else "",
        )
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
