"""What a state folder holds, for people and programs; nothing is loaded but its index."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from gplasc._io.table import Table, Value
from gplasc._io.text import printable
from gplasc.classifier._state import CANDIDATE, PENDING, older_states, read_state


def describe_state(folder: Path) -> dict[str, Any]:
    """Return what the classifier in a folder has learned, as plain JSON values."""
    state = read_state(folder)
    frozen = state.kind == "frozen"
    return {
        "folder": str(folder),
        **state.model_dump(
            mode="json", include={"format", "gplasc", "generation", "head", "encoder", "calibration"}
        ),
        "method": state.parameters["method"] if frozen else state.config.title,
        "heads": [head.model_dump() for head in state.heads],
        "frozen": frozen or state.config.model.encoder_lr == 0,
        "image_shape": list(state.shape),
        "classes": sorted(state.labels),
        "tasks": [task.facts() for task in state.tasks],
        "kept": state.kept,
        "older_states": len(older_states(folder)),
        "candidate": (folder / CANDIDATE).exists(),
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "interrupted": (folder / PENDING).exists(),
    }


def print_state(folder: Path) -> None:
    """Print what the classifier in a folder has learned."""
    facts = describe_state(folder)
    shape, calibration = facts["image_shape"], facts["calibration"]
    size = f"{shape[1]} x {shape[2]} pixels, {shape[0]} channels" if shape[1:] else f"{shape[0]} numbers"
    kept = ", ".join(f"{count} {name}" for name, count in facts["kept"].items())
    lines = {
        "method": f"{facts['method']}, head {facts['head']}" if facts["head"] else facts["method"],
        "encoder": f"{facts['encoder']}{', frozen' if facts['frozen'] else ''}, {size}",
        "classes": f"{len(facts['classes'])}: {', '.join(map(str, facts['classes']))}",
        "kept": f"{kept}; {facts['bytes'] / 1e6:,.1f} MB with {facts['older_states']} older states",
    }
    if calibration:
        error, reject = calibration["calibration_error"], 100 * calibration["reject"]
        lines["sure"] = (
            f"expected calibration error {error:.1f} %; {reject:g} % of known images are called unknown"
        )
    for name, text in lines.items():
        print(textwrap.fill(f"{name:<9}{printable(text)}", 96, subsequent_indent=" " * 9))
    if facts["candidate"]:
        print("an update was refused; `gplasc report` shows it")
    if facts["interrupted"]:
        print("a call of `gplasc learn` was cut off; the same command continues it")
    rows: list[list[Value]] = []
    for number, task in enumerate(facts["tasks"], 1):
        shares = [task["figures"].get(name) for name in ("accuracy", "before", "after", "damage")]
        percents = [f"{share['percent']:.1f}" if share and share["of"] else "-" for share in shares]
        month = f"{number}: {len(task['new_classes'])} new classes"
        rows.append([month, task["images"], *percents, round(task["seconds"])])
    Table("", ["month", "images", "accuracy", "earlier: before", "after", "damage", "seconds"], rows).print()
