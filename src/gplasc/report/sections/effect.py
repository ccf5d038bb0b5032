"""Final accuracy over a setting that was varied on its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.report.charts import Chart, Series
from gplasc.report.panels import Panel
from gplasc.report.section import Section
from gplasc.report.wording import file_name, show_value
from gplasc.results.group import Group, Measure, varying_settings


def settings_effect(panels: Sequence[Panel]) -> Section | None:
    """Final accuracy over a setting that was varied on its own, the size of the memory among them."""
    families: dict[tuple[str, str], dict[str, list[Group]]] = defaultdict(lambda: defaultdict(list))
    for panel in panels:
        for group in panel.groups:
            families[panel.stream, panel.scale][group.first.name].append(group)
    parts = []
    for (stream, scale), by_title in families.items():
        charts = []
        for name in dict.fromkeys(n for same in by_title.values() for n in varying_settings(same)):
            slices = [line for title, same in sorted(by_title.items()) for line in _slices(title, same, name)]
            if slices:
                charts += [_chart(name, slices, scenario) for scenario in SCENARIOS]
        if charts:
            folder = f"{file_name(stream, 24)}-{file_name(scale)}"
            parts.append(Section(f"{stream}, {scale} scale", tuple(charts), folder=folder))
    text = "Each line varies one setting and keeps all others that were given; presets may follow."
    return Section("Effect of settings", text=text, parts=tuple(parts)) if parts else None


def _slices(title: str, groups: Sequence[Group], name: str) -> list[tuple[str, list[Group]]]:
    """Groups of one title that differ in the numeric setting `name` alone, at least three values each."""
    given = {
        n
        for n in varying_settings(groups)
        if n == "buffer" or any(group.first.sources.get(n) == "given" for group in groups)
    }
    if name not in given:
        return []
    lines: dict[tuple[str, ...], dict[float, Group]] = defaultdict(dict)
    for group in groups:
        value = group.settings.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            others = [
                f"{n.rpartition('.')[2]} {show_value(group.settings.get(n))}" for n in sorted(given - {name})
            ]
            lines[tuple(others)].setdefault(float(value), group)
    return [
        (", ".join([title, *others]), [same[value] for value in sorted(same)])
        for others, same in lines.items()
        if len(same) >= 3
    ]


def _chart(name: str, slices: Sequence[tuple[str, list[Group]]], scenario: str) -> Chart:
    measure = Measure("final_accuracy", scenario=scenario)
    lines, words = [], []
    for index, (label, groups) in enumerate(slices):
        line = Series(label, {float(group.settings[name]): group.spread(measure) for group in groups}, index)
        lines.append(line)
        places, means, *_ = line.columns()
        if places:
            low, high = min(zip(means, places, strict=True)), max(zip(means, places, strict=True))
            words.append(f"{label} from {low[0]:.1f} at {low[1]:g} to {high[0]:.1f} at {high[1]:g}")
    values = [float(group.settings[name]) for _, groups in slices for group in groups]
    return Chart(
        f"{name}: final accuracy, {SCENARIOS[scenario]}",
        name,
        "accuracy, percent",
        tuple(lines),
        "; ".join(words[:8]) + ("; and more." if len(words) > 8 else "."),
        log_x=min(values) > 0 and max(values) / min(values) > 30,
        zero_based=True,
        name=f"effect-{file_name(name)}-{file_name(scenario)}",
    )
