"""What the runs are and cost: time, departures from papers, settings, and where each was computed."""

from __future__ import annotations

from collections.abc import Sequence, Set

from gplasc._io.table import Column, Marked, Table
from gplasc.report.charts import Chart, Series
from gplasc.report.panels import ROWS, Panel
from gplasc.report.render import Block, Section
from gplasc.report.wording import say_values, show_spread, show_value
from gplasc.results.group import Group, varying_settings
from gplasc.results.record import Record
from gplasc.results.statistics import Spread, spread

_ENVIRONMENT = ("gplasc", "commit", "device", "threads", "python", "torch", "platform")
_NUMBERS = ("steps", "parameters", "rows in memory", "seconds")


def provenance(panels: Sequence[Panel]) -> list[Section]:
    """Sections on departures from papers, if there are any, on settings, and on every run."""
    groups = [group for panel in panels for group in panel.groups]
    return [*_deviations(groups), _settings(panels, groups), _runs(panels)]


def _deviations(groups: Sequence[Group]) -> list[Section]:
    """Where methods and plug-ins depart from their papers."""
    deviations = [item for group in groups for item in group.first.deviations.items()]
    lines = dict.fromkeys((name, text) for name, texts in deviations for text in texts)
    rows = sorted(lines, key=lambda line: line[0])
    columns = ("method", Column("departure", "left"))
    table = Table("Departures from papers and official code", columns, rows)
    text = "What these methods do otherwise than their papers or official code, and why."
    return [Section("Deviations", (table,), text)] if rows else []


def _settings(panels: Sequence[Panel], groups: Sequence[Group]) -> Section:
    """The settings that all runs share, and the other settings of each group."""
    differing = set(varying_settings(groups))
    shared = _values("Settings shared by all runs", groups[0], groups[0].settings.keys() - differing)
    parts = [Section("Shared by all runs", (shared,), folded=True)] if shared.rows else []
    if len(groups) > 1:
        for panel in panels:
            tables = tuple(_values(group.labels["row"], group, differing) for group in panel.groups)
            parts.append(Section(panel.title, tables, folded=True))
    seeds = sorted({record.seed for group in groups for record in group.records})
    listed = ", ".join(map(str, seeds[:20])) + " and more" * (len(seeds) > 20)
    text = f"Seeds: {listed}. The last column names the preset a value comes from, or says that it was given."
    return Section("Settings", parts=tuple(parts), text=text)


def _values(title: str, group: Group, names: Set[str]) -> Table:
    """The settings of a group that have these names."""
    sources = group.first.sources
    rows = [(n, show_value(v), sources.get(n, "")) for n, v in group.settings.items() if n in names]
    return Table(title, ("setting", Column("value", "left"), Column("from", "left")), rows)


def _runs(panels: Sequence[Panel]) -> Section:
    """By which code, where and when every run was computed, and what its stream held."""
    rows = [_run(record, group.labels["row"], panel) for panel in panels for group, record in panel.runs]
    # What is the same for all runs is said once.
    same = [name for name in _ENVIRONMENT if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    kept = [name for name in rows[0] if name not in same]
    columns = [Column(name, "right" if name in _NUMBERS else "left") for name in kept]
    table = Table("Every run", columns, [[row[name] for name in kept] for row in rows], name="runs")
    facts = "; ".join(f"{name} {rows[0][name] or 'unknown'}" for name in same)
    text = f"The same for all runs: {facts}." if same else ""
    parts = (
        Section("Runs", (table,), text, folded=len(rows) > 30),
        Section("Streams", (_streams(panels),), folded=True),
    )
    return Section("Provenance", parts=parts)


def _run(record: Record, label: str, panel: Panel) -> dict[str, str]:
    where = record.environment
    return {
        "run": record.run_id,
        "method": label,
        "stream": panel.stream,
        "seed": str(record.seed),
        "finished": str(where.get("finished", ""))[:16].replace("T", " "),
        **{name: str(where.get(name) or "") for name in _ENVIRONMENT},
        "commit": str(where.get("commit") or "")[:12],
        "steps": str(record.steps),
        "parameters": f"{record.parameters:,}".replace(",", " "),
        "rows in memory": str(record.memory.get("rows", "")),
        "seconds": f"{record.seconds:.1f}",
        "weights, SHA-256": record.weights_sha256[:12],
    }


def _streams(panels: Sequence[Panel]) -> Table:
    """What each stream held."""
    rows: dict[tuple[str, ...], None] = {}
    for panel in panels:
        for group in panel.groups:
            stream = group.first.stream
            names, more = stream.class_names[:40], len(stream.class_names) - 40
            row = (
                panel.stream,
                show_value(panel.classes_per_task),
                "×".join(map(str, stream.image_shape)),
                show_value(stream.train_samples),
                show_value(stream.test_samples),
                ", ".join(names) + (f" and {more} more" if more > 0 else ""),
                " ".join(stream.notes),
            )
            rows[row] = None
    columns = (
        "stream", "classes per task", "image shape", "training images", "test images", "classes", "notes",
    )  # fmt: skip
    return Table("Streams", [Column(column, "left") for column in columns], list(rows))


def time(panels: Sequence[Panel]) -> Section | None:
    """Seconds of each phase, and what the plug-ins add."""
    text = (
        "Mean over seeds. The ratio of training times compares runs of equal seed on the same device, processor and "
        "number of threads; machines that did other work at the same time disturb it."
    )
    return Section.of("Time", text, [(panel, _time_blocks(panel), "") for panel in panels])


def _time_blocks(panel: Panel) -> list[Block]:
    records = [record for group in panel.groups for record in group.records]
    names = list(dict.fromkeys(name for record in records for name in record.phase_seconds()))
    if not names:
        return []
    shown = panel.best(ROWS)
    series = tuple(
        Series(name, {g.labels["row"]: spread([_seconds(g, name).mean]) for g in shown}, index)
        for index, name in enumerate(names)
    )
    totals = [(g.labels["row"], sum(_seconds(g, name).mean for name in names)) for g in shown]
    words = f"Seconds in all: {say_values(totals)}."
    rows = []
    for group in panel.groups:
        base = panel.base(group)
        cost = _ratio(group, base) if base else spread([])
        ratio = f"× {show_spread(cost)}" if cost.count else Marked("–", "muted")
        rows.append([group.labels["row"], *(show_spread(_seconds(group, name)) for name in names), ratio])
    columns = ("method", *names, "training, plug-in to base")
    return [
        Chart("Seconds per run by phase", "", "seconds", series, words, "stack", name="time"),
        Table("Seconds per run, mean ± standard deviation", columns, rows, name="time"),
    ]


def _seconds(group: Group, phase: str) -> Spread:
    return spread([record.phase_seconds().get(phase, 0.0) for record in group.records])


def _ratio(group: Group, base: Group) -> Spread:
    """How many times as long training takes, for each seed that both have on the same machine."""
    ours, theirs = (
        {
            (r.seed, *(r.environment.get(name) for name in ("device", "processor", "threads"))): seconds
            for r in runs.records
            if (seconds := r.phase_seconds().get("train", 0.0)) > 0
        }
        for runs in (group, base)
    )
    return spread([ours[key] / theirs[key] for key in ours if key in theirs])
