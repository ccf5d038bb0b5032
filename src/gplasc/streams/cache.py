"""Image files are decoded once, to one file of uint8 pixels on disk, which is memory-mapped ever after."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gplasc.errors import UserError
from gplasc.lock import locked
from gplasc.streams.locate import cache_folder
from gplasc.streams.storage import MappedImages

IMAGE_SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
# Part of the key: raise it when the same files would give other pixels.
_VERSION = 1
_KEPT_SECONDS = 14 * 24 * 3600


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
        shown = ", ".join(self.skipped[:5]) + (", ..." if len(self.skipped) > 5 else "")
        return (f"skipped {len(self.skipped)} images that cannot be decoded: {shown}",)


def decode(
    name: str,
    root: Path,
    files: Sequence[str],
    size: int,
    *,
    skip_corrupt: bool = False,
    upright: bool = False,
) -> Decoded:
    """Decode `files`, paths below `root`, to RGB of `size` x `size` pixels, in this order.

    The shape of an image is not kept: it is resized to a square, as the papers' code does. The result is
    kept in the user's cache folder under a key made of the list of files, their sizes and times, and the
    size in pixels. Two processes may ask at once: one decodes, the other waits.

    upright: turn photographs the way the camera was held (EXIF).
    """
    if not files:
        raise UserError(f"{root} holds no images for {name}; name the folder that does")
    place = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:8]
    prefix = f"{name}-{size}px-{place}"
    folder = cache_folder() / "decoded"
    target = folder / f"{prefix}-{_key(root, files, size, upright)}"
    try:
        decoded = _open(target, len(files), size)
        if decoded is None:
            with locked(folder / f"{prefix}.lock"):
                decoded = _open(target, len(files), size)
                if decoded is None:
                    _make(name, root, files, size, target, skip_corrupt=skip_corrupt, upright=upright)
                    _forget(folder, prefix, target)
                    decoded = _open(target, len(files), size)
    except OSError as error:
        raise UserError(
            f"the decoded images of {name} cannot be kept in {folder}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    if decoded is None:
        raise UserError(f"{target} cannot be read back; delete it and try again")
    if decoded.skipped and not skip_corrupt:
        raise UserError(_undecodable(root / decoded.skipped[0], "found when it was decoded before"))
    return decoded


def list_images(folder: Path) -> list[str]:
    """Return the image files below `folder`, relative to it, sorted; hidden ones are left out."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(place).relative_to(folder)
        found += [
            (inside / name).as_posix()
            for name in sorted(names)
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122
        ]
    return found


def _forget(folder: Path, prefix: str, current: Path) -> None:
    """Delete what was decoded from an earlier state of the same files, when no run can still read it."""
    for stale in folder.glob(f"{prefix}-*"):
        if stale != current and stale.stat().st_mtime < time.time() - _KEPT_SECONDS:
            shutil.rmtree(stale, ignore_errors=True)


def _key(root: Path, files: Sequence[str], size: int, upright: bool) -> str:
    digest = hashlib.sha256(f"{_VERSION}/{size}/{upright}\n".encode())
    base = str(root)
    for name in files:
        try:
            stat = os.stat(f"{base}/{name}")  # noqa: PTH116 - a hundred thousand Path objects are slow
            state = f"{stat.st_size}/{stat.st_mtime_ns}/{stat.st_ctime_ns}"
        except OSError:
            state = "missing"
        digest.update(f"{name}\0{state}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _open(target: Path, count: int, size: int) -> Decoded | None:
    """Open what was decoded before; None when it is not there or not whole."""
    try:
        index = json.loads((target / "index.json").read_text())
        skipped = {int(number): str(name) for number, name in index["skipped"].items()}
        kept = torch.tensor([number for number in range(count) if number not in skipped], dtype=torch.int64)
        with (target / "images.npy").open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            offset = file.tell()
        images = MappedImages(target / "images.npy", offset, (len(kept), 3, size, size))
        whole = (target / "images.npy").stat().st_size == offset + len(kept) * images.image_bytes
        if shape != images.shape or dtype != np.uint8 or not whole:
            return None
        with suppress(OSError):
            os.utime(target)  # it is in use
        return Decoded(images, kept, tuple(skipped.values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def _make(
    name: str, root: Path, files: Sequence[str], size: int, target: Path, *, skip_corrupt: bool, upright: bool
) -> None:
    """Decode everything into a temporary folder, then give it its name: others see all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    needed = len(files) * 3 * size * size
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"the decoded images of {name} need {needed / 1e9:.1f} GB, {target.parent} has {free / 1e9:.1f}; "
            "make room, choose a smaller image size, or name another cache folder with GPLASC_CACHE"
        )
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    temporary.mkdir()
    skipped: dict[int, str] = {}
    try:
        with (temporary / "images.npy").open("wb+") as file:
            start = _write_header(file, len(files), size)
            for number, pixels in enumerate(_decode_all(name, root, files, size, upright)):
                if isinstance(pixels, str):
                    if not skip_corrupt:
                        raise UserError(_undecodable(root / files[number], pixels))
                    skipped[number] = files[number]
                else:
                    file.write(pixels.data)
            if skipped:
                file.seek(0)
                # numpy pads its header, so that a smaller number of images takes the same room.
                assert _write_header(file, len(files) - len(skipped), size) == start
            file.flush()
            os.fsync(file.fileno())
        if len(skipped) == len(files):
            raise UserError(
                f"none of the {len(files)} images below {root} can be decoded; is it the right folder?"
            )
        (temporary / "index.json").write_text(json.dumps({"root": str(root), "skipped": skipped}, indent=1))
        if target.exists():  # not whole, or it would have been opened
            shutil.rmtree(target)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_header(file: Any, count: int, size: int) -> int:
    header = {"descr": "|u1", "fortran_order": False, "shape": (count, 3, size, size)}
    np.lib.format.write_array_header_1_0(file, header)
    return int(file.tell())


def _decode_all(
    name: str, root: Path, files: Sequence[str], size: int, upright: bool
) -> Iterator[NDArray[np.uint8] | str]:
    """Yield the pixels of each file, in order, or (as text) why it cannot be decoded.

    Pillow lets go of Python's lock while it decodes and resizes, so threads are enough; only a few images
    are decoded ahead of the writer.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    workers = min(16, os.cpu_count() or 1)
    pending: deque[Future[NDArray[np.uint8] | str]] = deque()
    pool = ThreadPoolExecutor(workers)
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    try:
        with progress:
            bar = progress.add_task(f"decoding {name} to {size} px, once", total=len(files))
            for file in files:
                pending.append(pool.submit(_decode_one, root / file, size, upright))
                if len(pending) > 8 * workers:
                    yield pending.popleft().result()
                    progress.advance(bar)
            while pending:
                yield pending.popleft().result()
                progress.advance(bar)
    finally:
        with suppress(Exception):
            pool.shutdown(wait=True, cancel_futures=True)


def _decode_one(path: Path, size: int, upright: bool) -> NDArray[np.uint8] | str:
    """Return (3, size, size) pixels, or why there are none."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as opened:
            image: Image.Image = opened
            if upright:
                image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I;16"):
                image = image.convert("I").point(lambda value: value / 256).convert("L")
            elif image.mode in ("P", "LA", "PA", "RGBA", "La", "RGBa"):
                image = image.convert("RGBA")
            image = image.convert("RGB")
            if image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))
    except FileNotFoundError:
        return "it is missing"
    except Exception as error:  # Pillow's decoders raise almost anything on damaged files
        return str(error).split("\n")[0][:120] or type(error).__name__


def _undecodable(path: Path, reason: str) -> str:
    reason = reason.replace(f" {str(path)!r}", "")
    return f"{path} cannot be decoded ({reason}); replace it, or leave such images out with --skip-corrupt"
