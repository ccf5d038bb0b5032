"""Where data is looked for, and where files made from it are kept."""

import os
from pathlib import Path

import platformdirs

from gplasc._io.reading import readable, user_path
from gplasc.errors import UserError
from gplasc.streams._archive import extract
from gplasc.streams.info import Layout, Request


def cache_folder() -> Path:
    """Return the user's cache folder for this library: GPLASC_CACHE, or the system's place for caches."""
    named = os.environ.get("GPLASC_CACHE")
    return user_path(named) if named else platformdirs.user_cache_path("gplasc", appauthor=False)


def search_places(data_dir: Path | None = None) -> list[Path]:
    """Return the places that are searched, in this order; a download goes to the first of them."""
    named = (data_dir, os.environ.get("GPLASC_DATA"))
    return [*(user_path(place) for place in named if place), cache_folder() / "data"]


def find(layout: Layout, data_dir: Path | None = None) -> Path | None:
    """Return the first folder or archive of a data set, or None. Nothing is unpacked."""
    if data_dir is not None and not user_path(data_dir).exists():
        raise UserError(f"the data folder {data_dir} does not exist; name a folder or an archive that does")
    for place in search_places(data_dir):
        with readable(place):
            path = place if place.is_file() else _folder_in(place, layout)
            if path is not None:
                return path
            for name in layout.archives:
                if (place / name).is_file():
                    return place / name
    return next((Path(name) for name in layout.elsewhere if _has_marker(Path(name), layout)), None)


def locate(request: Request, *, unpack: bool = True) -> Path:
    """Return the data set's folder; an archive is unpacked into the cache first, once, or returned itself."""
    info = request.info
    if info.layout is None:
        raise UserError(f"{info.name} has no files: it comes with the library")
    layout = info.layout
    path = find(layout, request.data_dir)
    if path is None:
        files = " or ".join((*layout.archives, *(f"the folder {folder}" for folder in layout.folders)))
        places = ", ".join(map(str, (*search_places(request.data_dir), *layout.elsewhere)))
        raise UserError(
            f"{info.name} was not found (searched: {places}); put {files} into one of these places, "
            f"or name its place with --data-dir (data_dir= in Python), or run `gplasc data get {info.name}`"
        )
    if not unpack or path.is_dir():
        return path
    folder = _folder_in(extract(path, cache_folder() / "unpacked"), layout)
    if folder is None:
        names = " or ".join(layout.folders)
        raise UserError(f"{path} holds no {names} folder for {info.name}; give the official archive")
    return folder


def _folder_in(place: Path, layout: Layout) -> Path | None:
    """The data set's folder: the place itself, or below it by name."""
    if _has_marker(place, layout):
        return place
    folder = next((place / name for name in layout.folders if (place / name).is_dir()), None)
    if folder is None:
        return place if place.name in layout.folders and place.is_dir() else None
    # Some tools unpack NAME.zip into NAME/NAME.
    inner = folder / folder.name
    return inner if inner.is_dir() and not _has_marker(folder, layout) else folder


def _has_marker(place: Path, layout: Layout) -> bool:
    return place.is_dir() and any((place / marker).exists() for marker in layout.markers)
