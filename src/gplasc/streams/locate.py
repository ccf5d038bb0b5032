"""Where data is looked for, and where files made from it are kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from gplasc.errors import UserError
from gplasc.streams.archive import extract, is_archive
from gplasc.streams.info import Layout, StreamInfo


def cache_folder() -> Path:
    """Return the user's cache folder for this library: GPLASC_CACHE, or the system's place for caches."""
    named = os.environ.get("GPLASC_CACHE")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("gplasc", appauthor=False)


def data_folder(data_dir: str | Path | None) -> Path | None:
    """Return the user's data folder as a path.

    Raises:
        UserError: If it is neither text nor a path.
    """
    if data_dir is None:
        return None
    if not isinstance(data_dir, str | Path):
        raise UserError(f"data_dir is a {type(data_dir).__name__}; give text or a pathlib.Path")
    return Path(data_dir).expanduser()


def search_places(data_dir: Path | None = None) -> list[Path]:
    """Return the places that are searched, in this order: data_dir, GPLASC_DATA, the user's cache folder.

    A download goes to the first of them.
    """
    named = (data_dir, os.environ.get("GPLASC_DATA"))
    return [*(Path(place).expanduser() for place in named if place), cache_folder() / "data"]


def find(layout: Layout, data_dir: Path | None = None) -> Path | None:
    """Return the first folder or archive of a data set, or None. Nothing is unpacked.

    Raises:
        UserError: If `data_dir` does not exist, cannot be read, or is neither a folder nor an archive.
    """
    if data_dir is not None and not data_dir.expanduser().exists():
        raise UserError(f"the data folder {data_dir} does not exist; name a folder or an archive that does")
    for place in search_places(data_dir):
        try:
            found = _find_in(place, layout)
        except OSError as error:
            raise UserError(
                f"{error.filename or place} cannot be read: {error.strerror}; check its permissions"
            ) from error
        if found is not None:
            return found
    return next((Path(name) for name in layout.elsewhere if _has_marker(Path(name), layout.markers)), None)


def locate(info: StreamInfo, data_dir: Path | None = None) -> Path:
    """Return the data set's folder; an archive is unpacked into the cache first, once.

    Raises:
        UserError: If it is not found, or if the archive is damaged or holds something else.
    """
    found = find_or_explain(info, data_dir)
    if found.is_dir():
        return found
    assert info.layout is not None  # or it would not have been found
    unpacked = extract(found, cache_folder() / "unpacked")
    folder = _folder_in(unpacked, info.layout.folders, info.layout.markers)
    if folder is None:
        raise UserError(
            f"{found} holds no {' or '.join(info.layout.folders)} folder for {info.name}; "
            "give the official archive"
        )
    return folder


def find_or_explain(info: StreamInfo, data_dir: Path | None = None) -> Path:
    """Return the first folder or archive of a data set.

    Raises:
        UserError: Which files to put where, if there is none.
    """
    layout = info.layout
    if layout is None:
        raise UserError(f"{info.name} has no files: it comes with the library")
    found = find(layout, data_dir)
    if found is not None:
        return found
    files = " or ".join((*layout.archives, *(f"the folder {folder}" for folder in layout.folders[:1])))
    places = ", ".join(map(str, (*search_places(data_dir), *layout.elsewhere)))
    raise UserError(
        f"{info.name} was not found (searched: {places}); put {files} into one of these places, "
        f"or name its place with --data-dir, or run `gplasc data get {info.name}`"
    )


def _find_in(place: Path, layout: Layout) -> Path | None:
    if place.is_file():
        if is_archive(place):
            return place
        raise UserError(
            f"{place} is neither a folder nor a tar or zip archive; name the folder that holds it"
        )
    folder = _folder_in(place, layout.folders, layout.markers)
    if folder is not None:
        return folder
    return next((place / name for name in layout.archives if (place / name).is_file()), None)


def _folder_in(place: Path, folders: Sequence[str], markers: Sequence[str]) -> Path | None:
    """The data set's folder: the place itself, or below it by name (NAME/NAME too)."""
    if not place.is_dir():
        return None
    if _has_marker(place, markers):
        return place
    inner = next((name for name in folders if (place / name).is_dir()), None)
    if place.name in folders:
        # Some tools unpack NAME.zip into NAME/NAME.
        return place if inner is None else place / inner
    return None if inner is None else _folder_in(place / inner, (Path(inner).name,), markers)


def _has_marker(place: Path, markers: Sequence[str]) -> bool:
    return place.is_dir() and any((place / marker).exists() for marker in markers)
