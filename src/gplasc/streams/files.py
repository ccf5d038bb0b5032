"""Files that come from outside: regular files only, errors in one sentence; lists of image files with labels."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.streams.dataset import Dataset

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
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


@contextmanager
def readable(name: object) -> Iterator[None]:
    """Turn errors of the operating system (permissions, a disk that fails) into one sentence.

    Raises:
        UserError: If there is one.
    """
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename or name} cannot be read: {error.strerror or error}; check its permissions"
        ) from error


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a file that is neither empty nor larger than `limit` bytes.

    Raises:
        UserError: If it cannot be read, is empty or is larger.
    """
    with open_regular(path) as file, readable(path):
        content = file.read(limit + 1)
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


@dataclass(frozen=True)
class ImageFiles:
    """The image files of a data set, in the order in which they are decoded.

    Sorted by split and label, tasks can be mapped without a copy.

    Attributes:
        root: The folder that they are in.
        images: The path below `root`, the number of the class, and whether it belongs to the test split.
        class_names: The names of the classes.
        notes: What the user should know.
        upright: Whether to turn photographs the way the camera was held (EXIF).
    """

    root: Path
    images: Sequence[tuple[str, int, bool]]
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    upright: bool = False

    @property
    def names(self) -> list[str]:
        """The paths of the images below `root`."""
        return [name for name, _, _ in self.images]


@dataclass(frozen=True)
class ArrayFiles:
    """A data set that is read whole.

    Attributes:
        load: Reads or makes it.
        paths: The files that it is read from.
    """

    load: Callable[[], Dataset]
    paths: Sequence[Path] = ()


def list_images(folder: Path) -> list[str]:
    """Return the image files below `folder`, relative to it, sorted; hidden ones are left out.

    Raises:
        UserError: If a folder cannot be read.
    """
    images: list[str] = []
    with readable(folder):
        for place, folders, names in os.walk(folder, onerror=_fail):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inner = Path(place).relative_to(folder).as_posix()
            images += [
                name if inner == "." else f"{inner}/{name}"
                for name in sorted(names)
                if not name.startswith(".") and name.lower().endswith(_IMAGE_SUFFIXES)
            ]
    return images


def _fail(error: OSError) -> NoReturn:
    raise error


def list_folders(folder: Path) -> list[str]:
    """Return the names of the folders in `folder`, sorted; hidden ones are left out.

    Raises:
        UserError: If the folder cannot be read.
    """
    with readable(folder), os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def held_out_names(names: Sequence[str], seed: int) -> set[str]:
    """Return the fifth of the file names of one class that is held out for testing, at least one where there are two.

    Names are ranked by a hash of seed and name: no random numbers whose algorithm may change, and another file
    hardly moves the others.

    >>> held_out_names(["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"], seed=0)
    {'c.jpg'}
    """
    count = min(len(names) - 1, max(1, round(0.2 * len(names))))

    def rank(name: str) -> bytes:
        return hashlib.sha256(f"{seed}/{name}".encode("utf-8", "replace")).digest()

    return set(sorted(names, key=rank)[:count])
