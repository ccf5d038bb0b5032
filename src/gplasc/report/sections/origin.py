"""Where the numbers come from: deviations, settings, runs and streams."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from gplasc._io.table import Column, Table
from gplasc.report.groups import Group, Panel, finite, show_value, varying_settings
from gplasc.report.section import Section, Subsection


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
    groups = [group for panel in panels for group in panel.groups]
    differing = set(varying_settings(groups))
    shared = _settings("Settings shared by all runs", groups[0], groups[0].settings.keys() - differing)
    parts = [Subsection("Shared by all runs", (shared,), folded=True)] if shared.rows else []
    if len(groups) > 1:
        for panel in panels:
            tables = tuple(_settings(group.label, group, differing) for group in panel.groups)
            parts.append(Subsection(panel.title, tables, folded=True))
    seeds = sorted({record["settings"].get("seed", 0) for group in groups for record in group.records})
    listed = ", ".join(map(str, seeds[:20])) + (" and more" if len(seeds) > 20 else "")
    text = f"Seeds: {listed}. The last column names the preset a value comes from, or says that it was given."
    return Section("Settings", parts=tuple(parts), text=text)


def _settings(title: str, group: Group, names: Set[str]) -> Table:
    rows = [(n, show_value(v), group.sources.get(n, "")) for n, v in group.settings.items() if n in names]
    return Table(title, ("setting", Column("value", "left"), Column("from", "left")), rows)


def provenance(panels: Sequence[Panel]) -> Section:
    """Every run with where, when and by which code it was computed, and what its stream held."""
    rows = [
        _run(record, group, panel) for panel in panels for group in panel.groups for record in group.records
    ]
    # What is the same for all runs is said once.
    same = [name for name in _ENVIRONMENT if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    kept = [name for name in rows[0] if name not in same]
    columns = [Column(name, "right" if name in _NUMBERS else "left") for name in kept]
    table = Table("Every run", columns, [[row[name] for name in kept] for row in rows], name="runs")
    facts = "; ".join(f"{name} {rows[0][name] or 'unknown'}" for name in same)
    text = f"The same for all runs: {facts}." if same else ""
    parts = (
        Subsection("Runs", (table,), text, folded=len(rows) > 30),
        Subsection("Streams", (_streams(panels),), folded=True),
    )
    return Section("Provenance", parts=parts)


_ENVIRONMENT = ("gplasc", "commit", "device", "threads", "python", "torch", "platform")
_NUMBERS = ("steps", "parameters", "rows in memory", "seconds")


def _run(record: dict[str, Any], group: Group, panel: Panel) -> dict[str, str]:
    where = record.get("environment") or {}
    seconds = record.get("seconds")
    return {
        "run": str(record["run_id"]),
        "method": group.label,
        "stream": panel.stream,
        "seed": str(record["settings"].get("seed", 0)),
        "finished": str(where.get("finished", ""))[:16].replace("T", " "),
        **{name: str(where.get(name) or "") for name in _ENVIRONMENT},
        "commit": str(where.get("commit") or "")[:12],
        "steps": str(record.get("steps", "")),
        "parameters": f"{record.get('parameters') or 0:,}".replace(",", " "),
        "rows in memory": str((record.get("memory") or {}).get("rows", "")),
        "seconds": f"{seconds:.1f}" if finite([seconds]) else "",
        "weights, SHA-256": str(record.get("weights_sha256", ""))[:12],
    }


def _streams(panels: Sequence[Panel]) -> Table:
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
