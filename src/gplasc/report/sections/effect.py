"""Final accuracy over settings that were varied on their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart
from gplasc.report.groups import Group, Panel, show_value, varying_settings
from gplasc.report.lines import spread_series
from gplasc.report.section import Block, Section, Subsection
from gplasc.report.wording import cut_words, file_name


def settings_effect(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy over a setting that was varied on its own, the size of the memory among them."""
    families: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for panel in panels:
        for group in panel.groups:
            families[panel.stream, panel.scale].append(group)
    parts = []
    for (stream, scale), groups in families.items():
        blocks: list[Block] = []
        by_title: dict[str, list[Group]] = defaultdict(list)
        for group in groups:
            by_title[group.title].append(group)
        names = dict.fromkeys(n for same in by_title.values() for n in varying_settings(same))
        for name in names:
            slices = [
                (label, s)
                for title, same in sorted(by_title.items())
                for label, s in _slices(title, same, name)
            ]
            if not slices:
                continue
            for scenario, scenario_title in SCENARIOS.items():
                blocks.append(_effect_chart(name, slices, scenario, scenario_title))
        if blocks:
            where = f"{stream}, {scale} scale"
            parts.append(
                Subsection(where, tuple(blocks), folder=f"{file_name(stream, 24)}-{file_name(scale)}")
            )
    if not parts:
        return None
    return Section(
        "Effect of settings",
        text="Each line varies one setting and keeps all others that were given; presets may follow.",
        parts=tuple(parts),
    )


def _slices(title: str, groups: Sequence[Group], name: str) -> list[tuple[str, list[Group]]]:
    """Groups of one title that differ in the numeric setting `name` alone, at least three values each."""
    given = {
        n
        for n in varying_settings(groups)
        if n != name and (n == "buffer" or any(g.sources.get(n) == "given" for g in groups))
    }
    if name != "buffer" and not any(g.sources.get(name) == "given" for g in groups):
        return []
    found: dict[tuple[tuple[str, str], ...], dict[float, Group]] = defaultdict(dict)
    for group in groups:
        value = group.settings.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            others = tuple((n, show_value(group.settings.get(n))) for n in sorted(given))
            found[others].setdefault(float(value), group)
    return [
        (
            ", ".join([title, *(f"{n.rpartition('.')[2]} {v}" for n, v in others)]),
            [same[v] for v in sorted(same)],
        )
        for others, same in found.items()
        if len(same) >= 3
    ]


def _effect_chart(
    name: str, slices: Sequence[tuple[str, list[Group]]], scenario: str, scenario_title: str
) -> Chart:
    lines = []
    for index, (label, groups) in enumerate(slices):
        places = [float(g.settings[name]) for g in groups]
        spreads = [g.spread(scenario, "final_accuracy") for g in groups]
        lines.append(spread_series(label, places, spreads, index))
    values = [float(g.settings[name]) for _, groups in slices for g in groups]
    wide = min(values) > 0 and max(values) / min(values) > 30
    words = []
    for line in lines:
        pairs = [(y, x) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        if pairs:
            low, high = min(pairs, key=lambda k: k[0]), max(pairs, key=lambda k: k[0])
            words.append(f"{line.name} from {low[0]:.1f} at {low[1]:g} to {high[0]:.1f} at {high[1]:g}")
    return Chart(
        f"{name}: final accuracy, {scenario_title}",
        name,
        "accuracy, percent",
        tuple(lines),
        cut_words("; ".join(words) + "."),
        log_x=wide,
        zero_based=True,
        name=f"effect-{file_name(name)}-{file_name(scenario)}",
    )
