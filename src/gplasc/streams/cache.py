"""Image files are decoded once, to one file of uint8 pixels on disk, which is memory-mapped from then on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gplasc._io.files import temporary_folder
from gplasc._io.lock import locked
from gplasc._io.text import printable
from gplasc.errors import UserError
from gplasc.streams.files import ImageFiles, open_regular
from gplasc.streams.locate import cache_folder
from gplasc.streams.pixels import Undecodable, decode_stream
from gplasc.streams.storage import MappedImages

# Part of the key: raise it when the same files would give other pixels.
_VERSION = 2
_KEPT_SECONDS = 14 * 24 * 3600
_MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Decoded:
    """images: of the files that could be decoded; kept: (K,) int64, their places in the list of files."""

    images: MappedImages
    kept: Tensor
    skipped: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """One line about what was skipped, if anything was."""
        if not self.skipped:
            return ()
        shown = ", ".join(printable(name, lines=False) for name in self.skipped[:5])
        shown += ", ..." if len(self.skipped) > 5 else ""
        return (f"skipped {len(self.skipped)} images that cannot be decoded: {shown}",)


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
    files = [image.file for image in images.images]
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
                    _make(name, images, files, size, target, skip_corrupt=skip_corrupt)
                    _forget(folder, prefix, target)
                    decoded = _open(target, files, size)
    except OSError as error:
        raise UserError(
            f"the decoded images of {name} cannot be kept in {folder}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    if decoded is None:
        raise UserError(f"{target} cannot be read back; delete it and try again")
    if decoded.skipped and not skip_corrupt:
        raise UserError(_undecodable(images.root / decoded.skipped[0], "found when it was decoded before"))
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
        kept = torch.tensor([row for row in range(len(files)) if row not in skipped], dtype=torch.int64)
        images = MappedImages(target / "images", (len(kept), 3, size, size))
        if images.path.stat().st_size != len(kept) * images.image_bytes:
            return None
        with suppress(OSError):
            os.utime(target)  # it is in use
        return Decoded(images, kept, tuple(files[row] for row in sorted(skipped)))
    except (OSError, ValueError, TypeError, IndexError, RecursionError):
        return None


def _make(
    name: str, images: ImageFiles, files: Sequence[str], size: int, target: Path, *, skip_corrupt: bool
) -> None:
    """Decode everything into a temporary folder, then give it its name: others see all of it or nothing."""
    needed = len(files) * 3 * size * size
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"the decoded images of {name} need {needed / 1e9:.1f} GB, {target.parent} has {free / 1e9:.1f}; "
            "make room, choose a smaller image size, or name another cache folder with GPLASC_CACHE"
        )
    skipped: list[int] = []
    with temporary_folder(target) as temporary:
        with (temporary / "images").open("wb") as file:
            for number, pixels in enumerate(_decode_all(name, images, files, size, skip_corrupt)):
                if pixels is None:
                    skipped.append(number)
                else:
                    file.write(pixels.data)
            file.flush()
            os.fsync(file.fileno())
        if len(skipped) == len(files):
            raise UserError(
                f"none of the {len(files)} images below {images.root} can be decoded; is it the right folder?"
            )
        (temporary / "skipped.json").write_text(json.dumps(skipped))


def _decode_all(
    name: str, images: ImageFiles, files: Sequence[str], size: int, skip_corrupt: bool
) -> Iterator[NDArray[np.uint8] | None]:
    """Yield the pixels of each file, in order; None for one that is skipped.

    Pillow releases Python's lock while it decodes and resizes, so threads are enough; only one batch is decoded
    ahead of the writer.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    def decode_one(file: str) -> NDArray[np.uint8] | None:
        try:
            return _decode_file(images.root / file, size, images.upright)
        except UserError:
            if not skip_corrupt:
                raise
            return None

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    workers = min(16, os.cpu_count() or 1)
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with ThreadPoolExecutor(workers) as pool, progress:
        bar = progress.add_task(f"decoding {name} to {size} px, once", total=len(files))
        for start in range(0, len(files), 16 * workers):
            for pixels in pool.map(decode_one, files[start : start + 16 * workers]):
                yield pixels
                progress.advance(bar)


def read_image(path: Path) -> Tensor:
    """Decode one file to RGB of its own size, turned the way the camera was held: (3, H, W) uint8.

    Raises:
        UserError: If it cannot be decoded.
    """
    return torch.from_numpy(_decode_file(path, None, True))


def _decode_file(path: Path, size: int | None, upright: bool) -> NDArray[np.uint8]:
    """Return (3, size, size) pixels, or (3, H, W) if `size` is None."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise Undecodable(f"it has more than {_MOST_BYTES >> 20} MB")
            return decode_stream(file, size, upright=upright)
    except Undecodable as error:
        raise UserError(_undecodable(path, str(error))) from error
    except UserError as error:
        reason = str(error).partition(";")[0].replace(f"{path} ", "it ")
        raise UserError(_undecodable(path, reason)) from error


def _undecodable(path: Path, reason: str) -> str:
    reason = re.sub(" <_io.*?>", "", reason)
    return (
        f"{printable(str(path), lines=False)} cannot be decoded ({reason}); "
        "replace it, or leave such images out with --skip-corrupt"
    )
