"""Image files are decoded once, to one file of uint8 pixels on disk, which is memory-mapped from then on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from gplasc._io.files import temporary_folder
from gplasc._io.lock import locked
from gplasc.errors import UserError
from gplasc.streams.decode import read_image, undecodable
from gplasc.streams.files import ImageFiles
from gplasc.streams.locate import cache_folder
from gplasc.streams.storage import MappedImages

# Part of the key: raise it when the same files would give other pixels.
_VERSION = 2
_KEPT_SECONDS = 14 * 24 * 3600


Decoded = tuple[MappedImages, Tensor, tuple[str, ...]]
"""Images of the files that could be decoded, (K,) int64 their places in the list of files, and the other files."""


def decode(name: str, images: ImageFiles, size: int, *, skip_corrupt: bool = False) -> Decoded:
    """Decode image files to RGB of `size` x `size` pixels, in their order.

    The shape of an image is not kept: it is resized to a square, as the papers' code does. The result is
    kept in the user's cache folder under a key made of the list of files, their sizes and times, and the
    size in pixels. Two processes may ask at once: one decodes, the other waits.

    Args:
        name: Of the stream, for messages and the name of the cache.
        images: The files.
        size: Width and height in pixels.
        skip_corrupt: Leave out images that cannot be decoded.

    Raises:
        UserError: If an image cannot be decoded, or the result cannot be kept.
    """
    files = [file for file, _, _ in images.images]
    if not files:
        raise UserError(f"{images.root} holds no images for {name}; name the folder that does")
    place = hashlib.sha256(os.fsencode(images.root.resolve())).hexdigest()[:8]
    prefix = f"{name}-{size}px-{place}"
    folder = cache_folder() / "decoded"
    target = folder / f"{prefix}-{file_state(images.root, files, _VERSION, size, images.upright)[:16]}"
    try:
        decoded = _open(target, files, size)
        if decoded is None:
            with locked(folder / f"{prefix}.lock"):
                decoded = _open(target, files, size)
                if decoded is None:
                    needed, free = len(files) * 3 * size * size, shutil.disk_usage(folder).free
                    if needed > free:
                        raise UserError(
                            f"the decoded images of {name} need {needed / 1e9:.1f} GB, {folder} has "
                            f"{free / 1e9:.1f}; make room, choose a smaller image size, or name another cache "
                            "folder with GPLASC_CACHE"
                        )
                    skipped = _make(target, images, files, size, skip_corrupt)
                    _forget(folder, prefix, target)
                    decoded = _mapped(target, files, size, skipped)
    except OSError as error:
        raise UserError(
            f"the decoded images of {name} cannot be kept in {folder}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    _, _, left_out = decoded
    if left_out and not skip_corrupt:
        raise undecodable(images.root / left_out[0], "found when it was decoded before")
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
    """Delete what was decoded from an earlier state of the same files: no run can still read it after weeks.

    Temporary folders of killed processes go at once; whoever holds the lock is the only one at work.
    """
    for stale in [*folder.glob(f"{prefix}-*"), *folder.glob(f".{prefix}-*.tmp")]:
        old = stale.stat().st_mtime < time.time() - _KEPT_SECONDS
        if stale != current and (old or stale.name.startswith(".")):
            shutil.rmtree(stale, ignore_errors=True)


def _open(target: Path, files: Sequence[str], size: int) -> Decoded | None:
    """Open what was decoded before; None when it is not there or not whole."""
    try:
        skipped = set(json.loads((target / "skipped.json").read_text()))
        if not all(row in range(len(files)) for row in skipped):
            return None
        decoded = _mapped(target, files, size, skipped)
        if decoded[0].path.stat().st_size != len(decoded[0]) * decoded[0].image_bytes:
            return None
        with suppress(OSError):
            os.utime(target)  # it is in use
        return decoded
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _mapped(target: Path, files: Sequence[str], size: int, skipped: Collection[int]) -> Decoded:
    kept = torch.tensor([row for row in range(len(files)) if row not in skipped], dtype=torch.int64)
    images = MappedImages(target / "images", (len(kept), 3, size, size))
    return images, kept, tuple(files[row] for row in sorted(skipped))


def _make(target: Path, images: ImageFiles, files: Sequence[str], size: int, skip_corrupt: bool) -> set[int]:
    """Decode everything into a temporary folder, then give it its name: others see all of it or nothing.

    Returns the numbers of the files that cannot be decoded. Pillow releases Python's lock while it decodes and
    resizes, so threads are enough; only one batch is decoded ahead of the writer.
    """
    from rich.console import Console
    from rich.progress import track

    def read(file: str) -> Tensor | None:
        try:
            return read_image(images.root / file, size, upright=images.upright)
        except UserError:
            if not skip_corrupt:
                raise
            return None

    workers = min(16, os.cpu_count() or 1)
    batches = (files[start : start + 16 * workers] for start in range(0, len(files), 16 * workers))
    console = Console(stderr=True)
    skipped: set[int] = set()
    with temporary_folder(target) as temporary, ThreadPoolExecutor(workers) as pool:
        decoded = (pixels for batch in batches for pixels in pool.map(read, batch))
        bar = track(
            decoded,
            f"decoding {images.root.name} to {size} px, once",
            total=len(files),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        with (temporary / "images").open("wb") as file:
            for number, pixels in enumerate(bar):
                if pixels is None:
                    skipped.add(number)
                else:
                    file.write(pixels.numpy().data)
            file.flush()
            os.fsync(file.fileno())
        if len(skipped) == len(files):
            raise UserError(
                f"none of the {len(files)} images below {images.root} can be decoded; is it the right folder?"
            )
        (temporary / "skipped.json").write_text(json.dumps(sorted(skipped)))
    return skipped
