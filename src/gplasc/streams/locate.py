"""Where data is looked for, and where what the library makes of it is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gplasc.errors import UserError
from gplasc.streams.archive import extract, is_archive


@dataclass(frozen=True)
class Layout:
    """How a data set lies on disk.

    folders    names the official folder goes by
    markers    a folder of any name is accepted when it holds one of these
    archives   names of the official archives
    elsewhere  places outside the user's own folders where a system package puts it
    """

    folders: tuple[str, ...]
    markers: tuple[str, ...]
    archives: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def cache_folder() -> Path:
    """Return the user's cache folder for this library: GPLASC_CACHE, or what the system calls a cache."""
    named = os.environ.get("GPLASC_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "gplasc"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gplasc"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gplasc"


def download_folder(data_dir: Path | None = None) -> Path:
    """Return the folder a download goes to: the first place that will be searched."""
    return search_places(data_dir)[0]


def search_places(data_dir: Path | None = None) -> list[Path]:
    """Return the places that are searched, in this order: data_dir, GPLASC_DATA, the user's cache folder."""
    places = [] if data_dir is None else [Path(data_dir).expanduser()]
    if os.environ.get("GPLASC_DATA"):
        places.append(Path(os.environ["GPLASC_DATA"]).expanduser())
    return [*places, cache_folder() / "data"]


def find(layout: Layout, data_dir: Path | None = None) -> Path | None:
    """Return the first folder or archive of a data set, or None. Nothing is unpacked."""
    if data_dir is not None and not Path(data_dir).expanduser().exists():
        raise UserError(f"the data folder {data_dir} does not exist; name a folder or an archive that does")
    for place in search_places(data_dir):
        if place.is_file():
            if is_archive(place):
                return place
            raise UserError(
                f"{place} is neither a folder nor a tar or zip archive; name the folder that holds it"
            )
        folder = _folder_in(place, layout)
        if folder is not None:
            return folder
        for name in layout.archives:
            if (place / name).is_file():
                return place / name
    for name in layout.elsewhere:
        if _has_marker(Path(name), layout.markers):
            return Path(name)
    return None


def locate(name: str, layout: Layout, data_dir: Path | None = None) -> Path:
    """Return the data set's folder; an archive is unpacked into the cache first, once."""
    found = find(layout, data_dir)
    if found is None:
        raise UserError(not_found(name, layout, data_dir))
    if found.is_dir():
        return found
    unpacked = extract(found, cache_folder() / "unpacked")
    folder = _folder_in(unpacked, layout)
    if folder is None:
        raise UserError(
            f"{found} holds no {' or '.join(layout.folders)} folder for {name}; give the official archive"
        )
    return folder


def not_found(name: str, layout: Layout, data_dir: Path | None = None) -> str:
    """Say in one sentence where to put which file."""
    files = " or ".join((*layout.archives, *(f"the folder {folder}" for folder in layout.folders[:1])))
    places = ", ".join(map(str, (*search_places(data_dir), *layout.elsewhere)))
    return (
        f"{name} was not found (searched: {places}); put {files} into one of these places, "
        f"or name its place with --data-dir, or run `gplasc data get {name}`"
    )


def _folder_in(place: Path, layout: Layout) -> Path | None:
    """The data set's folder: the place itself, or below it by name (NAME/NAME too)."""
    if not place.is_dir():
        return None
    if place.name in layout.folders or _has_marker(place, layout.markers):
        # A folder inside of the same name wins: some tools unpack NAME.zip into NAME/NAME.
        inner = next((place / name for name in layout.folders if (place / name).is_dir()), None)
        return inner if inner is not None and not _has_marker(place, layout.markers) else place
    for name in layout.folders:
        if (place / name).is_dir():
            return _folder_in(place / name, Layout((Path(name).name,), layout.markers)) or place / name
    return None


def _has_marker(place: Path, markers: Sequence[str]) -> bool:
    return place.is_dir() and any((place / marker).exists() for marker in markers)
