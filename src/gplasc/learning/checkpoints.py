"""Checkpoint files: written whole or not at all, with a checksum, the last two kept; digests of tensors."""

import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gplasc._io.files import write_atomic
from gplasc._io.reading import read_bytes

MISFIT = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, AssertionError, OverflowError)
"""What loading a state raises that is intact, but was not written by what reads it."""
LARGEST = 16 * 2**30  # bytes of a file of tensors
_DIGEST = hashlib.sha256().digest_size
_KEPT = 2
CHECKPOINTS = "checkpoint-*.pt"
"""The names of checkpoint files; they sort by age."""


def save(folder: Path, number: int, state: dict[str, Any]) -> Path:
    """Write checkpoint ``number`` and delete all but the last two."""
    path = write_state(folder / f"checkpoint-{number:09d}.pt", state)
    _delete(_all(folder)[:-_KEPT])
    return path


def load_newest(folder: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """Return the newest intact checkpoint, or None, and the damaged ones that are newer."""
    damaged: list[Path] = []
    for path in reversed(_all(folder)):
        state = read_state(path)
        if state is not None:
            return state, damaged
        damaged.append(path)
    return None, damaged


def delete_all(folder: Path) -> None:
    """Delete every checkpoint; a finished run does not need them."""
    _delete(_all(folder))


def write_state(path: Path, state: dict[str, Any]) -> Path:
    """Write tensors and plain containers with their checksum."""
    content = io.BytesIO()
    torch.save(state, content)
    content.write(hashlib.sha256(content.getbuffer()).digest())
    return write_atomic(path, content.getbuffer())


def read_state(path: Path) -> dict[str, Any] | None:
    """Read what `write_state` wrote; None if the file is damaged. One that cannot be read is a UserError."""
    data = memoryview(read_bytes(path, LARGEST))
    if len(data) <= _DIGEST or hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        return None
    try:
        return load_tensors(data[:-_DIGEST])
    except Exception:  # the checksum is right, but the content was not written by `write_state`
        return None


def load_tensors(content: bytes | memoryview) -> dict[str, Any]:
    """Load named tensors and plain containers; members that unpack to more than the file has are refused."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(content):
            raise ValueError("it is compressed")
    tensors = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(tensors, dict):
        raise ValueError("it holds no named tensors")
    return tensors


def misfit(error: BaseException) -> str:
    """Return one line about an error of `MISFIT`."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


def digest(tensors: Mapping[str, Any], *, extra_state: bool = False) -> str:
    """Return the SHA-256 of named tensors: equal only if names, shapes, types and every bit are.

    A module's extra state (its settings) is left out, unless `extra_state` and it is a tensor.
    """
    total = hashlib.sha256()
    for name in sorted(tensors):
        if not isinstance(tensors[name], Tensor) or (name.endswith("_extra_state") and not extra_state):
            continue
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # they do no harm
            path.unlink()


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob(CHECKPOINTS))
