"""What a state folder holds, for people and programs; nothing is loaded but its index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gplasc._io.table import Column, Table
from gplasc._io.text import printable
from gplasc.classifier.state import PENDING, read_state


def describe_state(folder: Path) -> dict[str, Any]:
    """Return what the classifier in a folder has learned, as plain JSON values.

    Raises:
        UserError: If there is no state.
    """
    saved = read_state(folder)
    config, index = saved.config, saved.index
    return {
        "folder": str(folder),
        "format": index["format"],
        "gplasc": index["gplasc"],
        "method": config.title,
        "encoder": config.model.encoder,
        "frozen": config.model.encoder_lr == 0,
        "image_shape": list(saved.shape),
        "classes": saved.classes,
        "tasks": index["tasks"],
        "memory": index["memory"],
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "interrupted": (folder / PENDING).exists(),
    }


def print_state(folder: Path) -> None:
    """Print what the classifier in a folder has learned."""
    facts = describe_state(folder)
    memory = facts["memory"]
    channels, size, _ = facts["image_shape"]
    frozen = ", frozen" if facts["frozen"] else ""
    lines = {
        "method": facts["method"],
        "encoder": f"{facts['encoder']}{frozen}, images of {size} x {size} with {channels} channels",
        "classes": f"{len(facts['classes'])}: {', '.join(map(str, facts['classes']))}",
        "memory": f"{memory['rows']} of {memory['capacity']} images, and {memory['held_out']} held out",
        "size": f"{facts['bytes'] / 1e6:,.1f} MB",
    }
    for name, text in lines.items():
        print(f"{name:<9}{printable(text)}")
    if facts["interrupted"]:
        print("a call of `gplasc learn` was cut off; the same command continues it")
    heads = ["task", "new classes", "images", "accuracy", "earlier tasks: before", "after", "seconds"]
    columns = [Column(head, "left" if head == "new classes" else "right") for head in heads]
    rows = [
        [
            number,
            ", ".join(map(str, task["new_classes"])) or "none",
            task["images"],
            *(_percent(task[name]) for name in ("accuracy", "known_before", "known_after")),
            round(task["seconds"]),
        ]
        for number, task in enumerate(facts["tasks"], 1)
    ]
    Table("", columns, rows).print()


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
