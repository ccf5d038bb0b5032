"""Files that come from outside: regular files only, errors in one sentence; lists of image files with labels."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from gplasc.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_TEXT_BYTES = 64 * 2**20


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading bytes; a pipe, a device or a folder is refused without waiting for it.

    Raises:
        UserError: If the file is missing, cannot be read or is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; unpack the official archive completely") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is not a regular file; replace it by one")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a file that is neither empty nor larger than `limit` bytes.

    Raises:
        UserError: If it cannot be read, is empty or is larger.
    """
    with open_regular(path) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise UserError(f"{path} is empty; delete it and get it again")
    if len(content) > limit:
        raise UserError(
            f"{path} has more than {limit:,} bytes, which is too large for this data set; "
            "delete it and get it again"
        )
    return content


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file that are not blank, without surrounding blanks.

    Raises:
        UserError: If it cannot be read, is not text or has no lines.
    """
    try:
        text = read_bytes(path, _TEXT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file; delete it and get it again") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{path} is empty; delete it and get it again")
    return lines


def inside(name: str, path: Path) -> str:
    """Return a file name that the list `path` mentions.

    Raises:
        UserError: If it leads out of the data set's folder.
    """
    if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
        raise UserError(
            f"{path} names the file {name!r}, which lies outside the data set; get the official file"
        )
    return name


class LabeledFile(NamedTuple):
    """An image file, by its path below a root folder, the number of its class, and the split it belongs to."""

    file: str
    label: int
    is_test: bool


@dataclass(frozen=True)
class ImageFiles:
    """The images of a data set, in the order in which they are decoded.

    Sorted by split and label, tasks can be mapped without a copy.

    upright: turn photographs the way the camera was held (EXIF).
    """

    root: Path
    images: tuple[LabeledFile, ...]
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    upright: bool = False


def labeled(files: Iterable[tuple[str, int]], *, is_test: bool) -> tuple[LabeledFile, ...]:
    """Return pairs of file and label as images of one split."""
    return tuple(LabeledFile(file, label, is_test) for file, label in files)


def list_images(folder: Path) -> list[str]:
    """Return the image files below `folder`, relative to it, sorted; hidden ones are left out.

    Raises:
        UserError: If a folder cannot be read.
    """
    found: list[str] = []
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(place).relative_to(folder).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        found += [
            prefix + name
            for name in sorted(names)
            if not name.startswith(".") and name.lower().endswith(IMAGE_SUFFIXES)
        ]
    return found


def list_folders(folder: Path) -> list[str]:
    """Return the names of the folders in `folder`, sorted; hidden ones are left out.

    Raises:
        UserError: If the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
            )
    except OSError as error:
        _unreadable(error)
        raise


def _unreadable(error: OSError) -> None:
    raise UserError(f"{error.filename} cannot be read: {error.strerror}; check its permissions") from error


def split_names(names: Sequence[str], *, fraction: float, seed: int) -> tuple[list[str], list[str]]:
    """Split the file names of one class into (train, test), both in their given order.

    Names are ranked by a hash of seed and name and the first `fraction` goes to test, at least one where
    there are two: no random numbers whose algorithm may change, and another file hardly moves the others.

    >>> split_names(["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"], fraction=0.2, seed=0)
    (['a.jpg', 'b.jpg', 'd.jpg', 'e.jpg'], ['c.jpg'])
    """
    count = min(len(names) - 1, max(1, round(fraction * len(names))))
    ranked = sorted(
        names, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode("utf-8", "replace")).digest()
    )
    test = set(ranked[:count])
    return [name for name in names if name not in test], [name for name in names if name in test]
