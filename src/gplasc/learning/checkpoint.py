"""Checkpoints that can be trusted: written whole or not at all, with a checksum, the last two kept."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from gplasc.files import write_atomic

_DIGEST = hashlib.sha256().digest_size
_KEPT = 2


def save(folder: Path, number: int, state: dict[str, Any]) -> Path:
    """Write checkpoint ``number``, with its checksum behind it, and delete all but the last two."""
    content = io.BytesIO()
    torch.save(state, content)
    content.write(hashlib.sha256(content.getbuffer()).digest())
    path = write_atomic(folder / f"checkpoint-{number:09d}.pt", content.getvalue())
    for old in _all(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path


def load_newest(folder: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """Return the newest sound checkpoint, or None, and the damaged ones that were passed over."""
    damaged: list[Path] = []
    for path in reversed(_all(folder)):
        data = memoryview(path.read_bytes())
        if len(data) > _DIGEST and hashlib.sha256(data[:-_DIGEST]).digest() == data[-_DIGEST:]:
            state = torch.load(io.BytesIO(data[:-_DIGEST]), map_location="cpu", weights_only=True)
            return state, damaged
        damaged.append(path)
    return None, damaged


def delete_all(folder: Path) -> None:
    """Delete every checkpoint; a finished run does not need them."""
    for path in _all(folder):
        path.unlink(missing_ok=True)


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.pt"))
