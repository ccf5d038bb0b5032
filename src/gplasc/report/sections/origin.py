"""Where the numbers come from: deviations, settings, runs and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gplasc.report.groups import Group, Panel, finite, show_value, varying_settings
from gplasc.report.section import Block, Section, Subsection
from gplasc.results.table import Column, Table

_SETTINGS = ("setting", Column("value", "left"), Column("from", "left"))


def deviations(panels: Sequence[Panel]) -> Section | None:
    """Where methods and plug-ins depart from their papers."""
    found: dict[str, dict[str, None]] = {}
    for panel in panels:
        for group in panel.groups:
            for name, texts in (group.first.get("deviations") or {}).items():
                found.setdefault(name, {}).update(dict.fromkeys(texts))
    rows = tuple((name, text) for name in sorted(found) for text in found[name])
    if not rows:
        return None
    table = Table("Departures from papers and official code", ("method", Column("departure", "left")), rows)
    return Section(
        "Deviations",
        (table,),
        text="What these methods do otherwise than their papers or official code, and why.",
    )


def settings(panels: Sequence[Panel]) -> Section:
    """The settings all runs share, and what each group has beside them."""
    groups = [(panel, group) for panel in panels for group in panel.groups]
    differing = set(varying_settings([group for _, group in groups]))
    first = groups[0][1]
    shared = tuple(
        (name, show_value(value), first.sources.get(name, ""))
        for name, value in first.settings.items()
        if name not in differing
    )
    parts = []
    if shared:
        parts.append(
            Subsection(
                "Shared by all runs", (Table("Settings shared by all runs", _SETTINGS, shared),), folded=True
            )
        )
    if len(groups) > 1:
        for panel in panels:
            tables: list[Block] = []
            for group in panel.groups:
                rows = tuple(
                    (name, show_value(value), group.sources.get(name, ""))
                    for name, value in group.settings.items()
                    if name in differing
                )
                tables.append(Table(group.label, _SETTINGS, rows))
            parts.append(Subsection(panel.title, tuple(tables), folded=True))
    seeds = sorted({r["settings"].get("seed", 0) for _, g in groups for r in g.records})
    listed = ", ".join(map(str, seeds[:20])) + (" and more" if len(seeds) > 20 else "")
    return Section(
        "Settings",
        parts=tuple(parts),
        text=f"Seeds: {listed}. The last column names the preset a value comes from, or says that it was given.",
    )


def provenance(panels: Sequence[Panel]) -> Section:
    """Every run with where, when and by which code it was computed, and what its stream held."""
    columns = (
        "run", "method", "stream", "seed", "finished", "gplasc", "commit", "device", "threads", "python", "torch",
        "platform", "steps", "parameters", "rows in memory", "seconds", "weights, SHA-256",
    )  # fmt: skip
    rows = [
        _run_row(record, group, panel)
        for panel in panels
        for group in panel.groups
        for record in group.records
    ]
    # What is the same for all runs is said once.
    same = [i for i in range(5, 12) if len(rows) > 1 and len({row[i] for row in rows}) == 1]
    kept = [i for i in range(len(columns)) if i not in same]
    table = Table(
        "Every run",
        [Column(columns[i], "left" if i < 12 else "right") for i in kept],
        [[row[i] for i in kept] for row in rows],
        name="runs",
    )
    facts = "; ".join(f"{columns[i]} {rows[0][i] or 'unknown'}" for i in same)
    text = f"The same for all runs: {facts}." if same else ""
    parts = (
        Subsection("Runs", (table,), text, folded=len(rows) > 30),
        Subsection("Streams", (streams(panels),), folded=True),
    )
    return Section("Provenance", parts=parts)


def _run_row(record: dict[str, Any], group: Group, panel: Panel) -> tuple[str, ...]:
    where = record.get("environment") or {}
    seconds = record.get("seconds")
    return (
        str(record["run_id"]),
        group.label,
        panel.stream,
        str(record["settings"].get("seed", 0)),
        str(where.get("finished", ""))[:16].replace("T", " "),
        str(where.get("gplasc", "")),
        str(where.get("commit") or "")[:12],
        str(where.get("device", "")),
        str(where.get("threads", "")),
        str(where.get("python", "")),
        str(where.get("torch", "")),
        str(where.get("platform", "")),
        str(record.get("steps", "")),
        f"{record.get('parameters') or 0:,}".replace(",", " "),
        str((record.get("memory") or {}).get("rows", "")),
        f"{seconds:.1f}" if finite([seconds]) else "",
        str(record.get("weights_sha256", ""))[:12],
    )


def streams(panels: Sequence[Panel]) -> Table:
    """What each stream held."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for panel in panels:
        for group in panel.groups:
            stream = group.first["stream"]
            names = [str(n) for n in stream.get("class_names") or []]
            shown = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
            row = [
                panel.stream,
                show_value(list(panel.classes_per_task)),
                "×".join(map(str, stream.get("image_shape") or [])),
                show_value(stream.get("train_samples") or []),
                show_value(stream.get("test_samples") or []),
                shown,
                " ".join(map(str, stream.get("notes") or [])),
            ]
            rows[tuple(row)] = row
    columns = (
        "stream",
        "classes per task",
        "image shape",
        "training images",
        "test images",
        "classes",
        "notes",
    )
    return Table("Streams", [Column(column, "left") for column in columns], list(rows.values()))
