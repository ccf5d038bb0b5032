"""Image files are decoded once, to one file of uint8 pixels on disk, which is memory-mapped from then on."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from gplasc._io.files import temporary_folder
from gplasc._io.lock import locked
from gplasc._io.reading import read_text
from gplasc.errors import UserError
from gplasc.streams._storage import MappedImages
from gplasc.streams.decode import Undecodable, read_image
from gplasc.streams.files import ImageFiles, tracked
from gplasc.streams.locate import cache_folder

# Part of the key: raise it when the same files would give other pixels.
_VERSION = 2
_KEPT_SECONDS = 14 * 24 * 3600

Decoded = tuple[MappedImages, Tensor, tuple[str, ...]]
"""Images of the files that could be decoded, (K,) int64 their places in the list of files, and the other files."""


def decode(name: str, images: ImageFiles, size: int, *, skip_corrupt: bool = False) -> Decoded:
    """Decode the image files of a stream to RGB of `size` x `size` pixels, in their order.

    They are resized to a square, as the papers' code does, and kept in the user's cache folder under a key made of the
    files' names, sizes and times, and the size in pixels. Two processes may ask at once: one decodes, the other waits.
    """
    if not images.images:
        raise UserError(f"{images.root} holds no images for {name}; name the folder that does")
    place = hashlib.sha256(os.fsencode(images.root.resolve())).hexdigest()[:8]
    prefix = f"{name}-{size}px-{place}"
    folder = cache_folder() / "decoded"
    target = folder / f"{prefix}-{file_state(images.root, images.names, _VERSION, size, images.upright)[:16]}"
    try:
        decoded = _open(target, images, size)
        if decoded is None:
            with locked(folder / f"{prefix}.lock"):
                if _open(target, images, size) is None:
                    _make(target, images, size, skip_corrupt)
                    _forget(folder, prefix, target)
                decoded = _open(target, images, size)
        if decoded is None:
            raise OSError("they cannot be read back")
    except OSError as error:
        raise UserError(
            f"the decoded images of {name} cannot be kept in {folder}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    if decoded[2] and not skip_corrupt:
        raise Undecodable(images.root / decoded[2][0], "found when it was decoded before")
    return decoded


def file_state(root: Path, files: Sequence[str], *others: object) -> str:
    """Return a digest of names, sizes and times of files below `root`: it changes when one of them does."""
    digest = hashlib.sha256(repr(others).encode())
    base = str(root)
    for name in files:
        try:
            stat = os.stat(f"{base}/{name}")  # noqa: PTH116 - a hundred thousand Path objects are slow
            state = f"{stat.st_size}/{stat.st_mtime_ns}/{stat.st_ctime_ns}"
        except OSError:
            state = "missing"
        digest.update(f"{name}\0{state}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _forget(folder: Path, prefix: str, current: Path) -> None:
    """Delete what was decoded from earlier states of the same files weeks ago, and what killed processes left."""
    for stale in [*folder.glob(f"{prefix}-*"), *folder.glob(f".{prefix}-*.tmp")]:
        old = stale.stat().st_mtime < time.time() - _KEPT_SECONDS
        if stale != current and (old or stale.name.startswith(".")):
            shutil.rmtree(stale, ignore_errors=True)


def _open(target: Path, images: ImageFiles, size: int) -> Decoded | None:
    """Open what was decoded before; None when it is not there or not whole."""
    names = images.names
    try:
        skipped = set(json.loads(read_text(target / "skipped.json")))
        kept = torch.tensor([row for row in range(len(names)) if row not in skipped], dtype=torch.int64)
        mapped = MappedImages(target / "images", (len(kept), 3, size, size))
        whole = mapped.path.stat().st_size == len(kept) * mapped.image_bytes
        if not whole or len(kept) + len(skipped) != len(names):
            return None
        with suppress(OSError):
            os.utime(target)  # it is in use
        return mapped, kept, tuple(names[row] for row in sorted(skipped))
    except (UserError, OSError, ValueError, TypeError, RecursionError):
        return None


def _make(target: Path, images: ImageFiles, size: int, skip_corrupt: bool) -> None:
    """Decode everything into a temporary folder, in threads (Pillow releases Python's lock), then give it its name."""

    def read(name: str) -> Tensor | None:
        try:
            return read_image(images.root / name, size, upright=images.upright)
        except Undecodable:
            if not skip_corrupt:
                raise
            return None

    names = images.names
    needed, free = len(names) * 3 * size * size, shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"decoded images need {needed / 1e9:.1f} GB, {target.parent} has {free / 1e9:.1f}; "
            "make room, choose a smaller image size, or name another cache folder with GPLASC_CACHE"
        )
    workers = min(16, os.cpu_count() or 1)
    batches = (names[start : start + 16 * workers] for start in range(0, len(names), 16 * workers))
    skipped: list[int] = []
    with temporary_folder(target) as temporary, ThreadPoolExecutor(workers) as pool:
        decoded = (pixels for batch in batches for pixels in pool.map(read, batch))
        bar = tracked(decoded, f"decoding {images.root.name} to {size} px, once", len(names))
        with (temporary / "images").open("wb") as file:
            for number, pixels in enumerate(bar):
                if pixels is None:
                    skipped.append(number)
                else:
                    file.write(pixels.numpy().data)
            file.flush()
            os.fsync(file.fileno())
        if len(skipped) == len(names):
            raise UserError(f"none of the {len(names)} images of {images.root} can be decoded; check it")
        (temporary / "skipped.json").write_text(json.dumps(skipped))
