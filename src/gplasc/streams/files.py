"""What readers of data sets return, and the files that they read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from gplasc._io.reading import read_bytes, read_text, readable
from gplasc.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from gplasc.streams._storage import MappedImages

TEST_NAMES = ("test", "val", "valid", "validation")
"""Of the test split in a user's folder; the first one that is there is used."""
_Item = TypeVar("_Item")
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def damaged(path: Path, what: str) -> UserError:
    """Return the error for a published file that is not as it was published."""
    return UserError(f"{path} {what}; it is not as published, delete it and get it again")


def read_published(path: Path, limit: int) -> bytes:
    """Return the content of a file that is neither empty nor larger than `limit` bytes."""
    content = read_bytes(path, limit)
    if not content:
        raise damaged(path, "is empty")
    return content


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file that are not blank, without surrounding blanks."""
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not lines:
        raise damaged(path, "is empty")
    return lines


def tracked(items: Iterable[_Item], text: str, total: int) -> Iterable[_Item]:
    """Pass items through and show a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, text, total, console=console, transient=True, disable=not console.is_terminal)


def inside(name: str, path: Path) -> str:
    """Return a file name that the list `path` mentions."""
    if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
        raise damaged(path, f"names the file {name!r}, which lies outside the data set")
    return name


@dataclass(frozen=True)
class ImageFiles:
    """The image files of a data set, in the order in which they are decoded.

    Sorted by split and label, tasks can be mapped without a copy. An image is its path below `root`, the number of
    its class, and whether it belongs to the test split; `upright` turns it the way the camera was held (EXIF).
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
class Split:
    """Images, (M, C, H, W) uint8 in memory or in a file, and labels, (N,) int64, as the data set numbers them.

    rows: (N,) int64, which image each label belongs to; None: the images in their order, N = M.
    """

    images: Tensor | MappedImages
    labels: Tensor
    rows: Tensor | None = None


@dataclass(frozen=True)
class Dataset:
    """A whole data set: two splits, the names of the classes, constants, and notes for the user.

    classes_per_task is the default where it is not the catalog's; features says that they take the place of images.
    """

    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()
    classes_per_task: int | None = None
    features: bool = False


@dataclass(frozen=True)
class ArrayFiles:
    """A data set that is read whole: the function that reads or makes it, and the files that it is read from."""

    load: Callable[[], Dataset]
    paths: Sequence[Path] = ()


def list_images(folder: Path) -> list[str]:
    """Return the image files below `folder`, relative to it, sorted; hidden ones are left out."""

    def fail(error: OSError) -> NoReturn:
        raise error

    images: list[str] = []
    with readable(folder):
        for place, folders, names in os.walk(folder, onerror=fail):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inner = Path(place).relative_to(folder)
            images += [
                (inner / name).as_posix()
                for name in sorted(names)
                if not name.startswith(".") and name.lower().endswith(_IMAGE_SUFFIXES)
            ]
    return images


def list_folders(folder: Path) -> list[str]:
    """Return the names of the folders in `folder`, sorted; hidden ones are left out."""
    with readable(folder), os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def split_by_name(root: Path, folders: Sequence[str], seed: int) -> list[tuple[str, int, bool]]:
    """List the images of class folders as `ImageFiles` has them; a fifth of each class is held out for testing.

    Their order does not depend on the seed, so that another one decodes nothing.
    """
    images: list[tuple[str, int, bool]] = []
    for number, folder in enumerate(folders):
        files = [f"{folder}/{name}" for name in list_images(root / folder)]
        if len(files) < 2:
            raise UserError(f"{root / folder} has {len(files)} images; a class needs two, one for testing")
        test = held_out_names(files, seed)
        images += [(file, number, file in test) for file in files]
    return images


def held_out_names(names: Sequence[str], seed: int) -> set[str]:
    """Return the fifth of the file names of one class that is held out for testing, at least one where there are two.

    Names are ranked by a hash of seed and name: no random numbers whose algorithm may change, and another file
    hardly moves the others.
    """
    count = min(len(names) - 1, max(1, round(0.2 * len(names))))

    def rank(name: str) -> bytes:
        return hashlib.sha256(f"{seed}/{name}".encode("utf-8", "replace")).digest()

    return set(sorted(names, key=rank)[:count])
