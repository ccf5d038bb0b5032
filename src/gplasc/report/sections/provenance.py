"""By which code, where and when every run was computed, and what its stream held."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Column, Table
from gplasc.report.panels import Panel
from gplasc.report.section import Section, Subsection
from gplasc.report.wording import show_value
from gplasc.results.record import Record

_ENVIRONMENT = ("gplasc", "commit", "device", "threads", "python", "torch", "platform")
_NUMBERS = ("steps", "parameters", "rows in memory", "seconds")


def provenance(panels: Sequence[Panel]) -> Section:
    """By which code, where and when every run was computed, and what its stream held."""
    rows = [
        _run(record, group.labels["row"], panel)
        for panel in panels
        for group in panel.groups
        for record in group.records
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
