"""The answers of the first screen: which method, which gain, how sure, and what the paper says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc.report.groups import Comparison, Panel
from gplasc.report.lines import rank
from gplasc.report.render import Finding
from gplasc.report.sections.paper import find_published, published_gain
from gplasc.report.wording import SEEDS, mark_difference, show_spread, signed
from gplasc.results.aggregate import Difference

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
    gains = [c.difference("class_il", "final_accuracy") for panel in panels for c in panel.comparisons]
    known = [gain for gain in gains if gain.count]
    if len(known) > LIMIT:  # not all of them are shown one by one
        clear = [g for g in known if math.isfinite(g.low) and not g.low <= 0 <= g.high]
        up = sum(g.mean > 0 for g in clear)
        mean = sum(g.mean for g in known) / len(known)
        words.append(
            f"Over {len(known)} comparisons of a method with and without its plug-in, class-IL accuracy changes by "
            f"{signed(mean)} points on average; the interval lies above 0 in {up}, below 0 in {len(clear) - up} "
            f"and holds 0, or is unknown, in {len(known) - len(clear)}."
        )
    return words


def find_findings(panels: Sequence[Panel]) -> list[Finding]:
    """Return the gains of the plug-ins, or the best accuracy where there are none: at most `LIMIT`.

    The best method of each panel comes first, then the second of each, and so on.
    """
    ranked = []
    for panel in panels:
        gains = [c for c in panel.comparisons if c.difference("class_il", "final_accuracy").count]
        best = sorted(gains, key=lambda c: -rank(c.group))
        found = [_gain(panel, comparison) for comparison in best] or _best(panel)
        ranked += [(place, finding) for place, finding in enumerate(found)]
    return [finding for _, finding in sorted(ranked, key=lambda pair: pair[0])[:LIMIT]]


def _gain(panel: Panel, comparison: Comparison) -> Finding:
    gain = comparison.difference("class_il", "final_accuracy")
    group, base = comparison.group, comparison.base
    means = [show_spread(g.spread("class_il", "final_accuracy")) for g in (base, group)]
    mark = mark_difference(gain).mark
    return Finding(
        f"{signed(gain.mean)}",
        f"points of class-IL accuracy: {group.label}",
        f"{panel.title}: {means[0]} without, {means[1]} with the plug-in",
        _certainty(gain),
        _paper(panel, comparison),
        "better" if mark == "better" else "worse" if mark == "worse" else "",
    )


def _certainty(gain: Difference) -> str:
    if not math.isfinite(gain.low):
        return "One pair of seeds: no interval, so this may be chance."
    text = f"95 % interval {signed(gain.low)} to {signed(gain.high)} (Student's t, n = {gain.count} pairs of seeds)"
    if gain.count < SEEDS:
        return f"{text}: fewer than {SEEDS} pairs, so not yet sure."
    return f"{text}: {'it holds 0, so not sure.' if gain.low <= 0 <= gain.high else 'it leaves out 0.'}"


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
