"""The answers of the first screen: which method, which gain, how sure, and what the paper says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gplasc.report.panels import Panel, rank, unlike
from gplasc.report.wording import show_spread, signed
from gplasc.results.group import CLASS_IL, Group
from gplasc.results.statistics import ENOUGH_PAIRS, ENOUGH_SEEDS, Difference
from gplasc.settings.presets import row_name

_LIMIT = 6  # findings on the first screen


@dataclass(frozen=True)
class Finding:
    """One answer of the first screen: a number, what it is, and lines of small print: where, how sure, the paper's."""

    value: str
    what: str
    details: tuple[str, ...]
    verdict: int = 0
    """1 for a certain gain, -1 for a certain loss."""


def headline(panels: Sequence[Panel]) -> list[str]:
    """Return what the page is about, in a few sentences."""
    if not panels:
        return []
    groups = [group for panel in panels for group in panel.groups]
    runs = sum(len(group.records) for group in groups)
    streams = list(dict.fromkeys(panel.stream for panel in panels))
    where = panels[0].title if len(panels) == 1 else ", ".join(streams[:6]) + " and more" * (len(streams) > 6)
    words = [f"{_count(runs, 'run')} of {_count(len(groups), 'configuration')} on {where}."]
    gains: dict[str, list[Difference]] = {}
    for group, _, gain in (shown for panel in panels for shown in _gains(panel)):
        plugins = row_name(" and ".join(group.first.plugins), group.settings)
        gains.setdefault(plugins, []).append(gain)
    if sum(map(len, gains.values())) < sum(len(panel.pairs) for panel in panels):
        few = f"over fewer than {ENOUGH_SEEDS} pairs of seeds, or at smoke scale, are in the tables only"
        words[0] += f" Gains {few}."
    if any(gain.count < ENOUGH_PAIRS for same in gains.values() for gain in same):
        words[0] += f" Differences over fewer than {ENOUGH_PAIRS} pairs of seeds may be chance."
    if sum(map(len, gains.values())) > _LIMIT:  # not all of them are shown one by one
        words += [_overview(plugin, differences) for plugin, differences in gains.items()]
    return words


def _gains(panel: Panel) -> list[tuple[Group, Group, Difference]]:
    """Return each group with its base and gain, the best first, where the gain may be a headline."""
    pairs = sorted(panel.pairs, key=lambda pair: -rank(pair[0])) if panel.scale != "smoke" else []
    gains = [(group, base, panel.gain(group)) for group, base in pairs]
    return [(group, base, gain) for group, base, gain in gains if gain and gain.count >= ENOUGH_SEEDS]


def _overview(plugin: str, gains: Sequence[Difference]) -> str:
    """Return the gains of one plug-in over all methods and streams, in a sentence."""
    verdicts = [gain.verdict for gain in gains]
    mean = sum(gain.mean for gain in gains) / len(gains)
    return (
        f"With {plugin}, class-IL accuracy changes by {signed(mean)} points on average over "
        f"{_count(len(gains), 'comparison')}; {verdicts.count(1)} are a certain gain and {verdicts.count(-1)} a "
        f"certain loss (95 % interval of at least {ENOUGH_PAIRS} pairs of seeds without 0)."
    )


def find_findings(panels: Sequence[Panel]) -> list[Finding]:
    """Return the gains of the plug-ins, or the best accuracy where none has enough seeds: at most six.

    The best method of each panel comes first, then the second of each, and so on; gains precede accuracies.
    """
    ranked = []
    for panel in (panel for panel in panels if panel.scale != "smoke"):  # whose numbers say nothing
        where = f"{panel.title}: " if len(panels) > 1 else ""
        gains = [_gain(panel, *gain, where) for gain in _gains(panel)]
        ranked += [(place, not gains, one) for place, one in enumerate(gains or _best(panel, where))]
    return [finding for *_, finding in sorted(ranked, key=lambda entry: entry[:2])[:_LIMIT]]


def _gain(panel: Panel, group: Group, base: Group, gain: Difference, where: str) -> Finding:
    without, with_it = (show_spread(one.spread(CLASS_IL)) for one in (base, group))
    details = [f"{where}{without} without, {with_it} with the plug-in", _certainty(gain)]
    if count := len(unlike(group, base)):
        differ = f"{_count(count, 'other setting')} also differ{'s' * (count == 1)}"
        details[0] += f"; {differ}, see the notes below"
    numbers = panel.published(group, CLASS_IL)
    gains = [(number.label, panel.published_gain(number, group, CLASS_IL)) for number in numbers]
    published = [(label, theirs) for label, theirs in gains if theirs is not None]
    details += [_the_paper(panel, signed(theirs), label) for label, theirs in published[:1]]
    what = f"points of class-IL accuracy: {group.labels['row']}"
    return Finding(signed(gain.mean), what, tuple(details), gain.verdict)


def _certainty(gain: Difference) -> str:
    text = f"95 % interval {signed(gain.low)} to {signed(gain.high)}, {gain.count} pairs of seeds"
    if gain.count < ENOUGH_PAIRS:
        return f"{text}."
    return f"{text}; it {'does not include 0' if gain.verdict else 'includes 0, so this may be chance'}."


def _the_paper(panel: Panel, number: str, table: str) -> str:
    return f"The paper: {number} ({table}{'' if panel.scale == 'paper' else ', at full scale'})."


def _best(panel: Panel, where: str) -> list[Finding]:
    groups = [group for group in panel.groups if rank(group) >= 0 and not group.first.sees_all_tasks]
    if not groups:
        return []
    best = max(groups, key=rank)
    value = best.spread(CLASS_IL)
    of = f"the highest of {len(groups)}" if len(groups) > 1 else "the only method"
    several = f"Standard deviation {value.std:.2f} over {value.count} seeds."
    chance = " The order may be chance." if value.count < ENOUGH_SEEDS and len(groups) > 1 else ""
    details = [f"{where}{of}", (several if value.count > 1 else "One seed.") + chance]
    details += [_the_paper(panel, str(n), n.label) for n in panel.published(best, CLASS_IL)[:1]]
    return [Finding(f"{value.mean:.2f} %", f"class-IL accuracy: {best.labels['row']}", tuple(details))]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
