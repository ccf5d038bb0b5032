"""Lists of image files with labels: what the readers of image folders return, before anything is decoded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gplasc.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


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
