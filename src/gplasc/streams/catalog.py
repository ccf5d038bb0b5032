"""The streams by name, found by looking into `sources/`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from gplasc._io.reading import user_path
from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.streams import sources
from gplasc.streams.info import Request, StreamInfo


def list_streams() -> list[StreamInfo]:
    """Return every stream that `open_stream` can open, in the order in which listings show them."""
    return list(_streams().values())


def find_stream(name: str | Path) -> tuple[StreamInfo, str]:
    """Return the facts of a stream, and what follows the colon in a name such as `folder:PATH` ("" if nothing does).

    Raises:
        UserError: If there is no such stream, or its argument is missing or not allowed.
    """
    name = stream_name(name)
    kind, _, argument = name.partition(":")
    info = _streams().get(kind)
    if info is None:
        raise UserError(f"there is no stream {name!r}; {did_you_mean(kind, _streams())}")
    if info.name != kind and not argument:
        raise UserError(f"the stream {name!r} lacks a path; write {info.name}, for example {kind}:my-data")
    if argument and info.name == kind and not info.argument_optional:
        raise UserError(f"the stream {kind!r} takes nothing after a colon, but {argument!r} was given")
    return info, argument


def stream_name(name: object) -> str:
    """Return the name of a stream that was given by name or as a path: `folder:my-images`."""
    if isinstance(name, Path):
        return f"npz:{name}" if name.suffix.lower() == ".npz" else f"folder:{name}"
    if isinstance(name, str):
        return name
    raise UserError(
        f"a stream is named by text or a pathlib.Path, but {type(name).__name__} was given; write for example "
        '"seq-digits" or Path("my-images"), or make a stream of a data set with gplasc.streams.from_dataset'
    )


def new_request(
    name: str | Path,
    data_dir: str | Path | None = None,
    *,
    image_size: int | None = None,
    seed: int = 0,
    skip_corrupt: bool = False,
) -> Request:
    """Return what the reader of a stream is asked for."""
    info, argument = find_stream(name)
    if not isinstance(data_dir, str | Path | None):
        raise UserError(f"data_dir is a {type(data_dir).__name__}; give text or a pathlib.Path")
    folder = None if data_dir is None else user_path(data_dir)
    return Request(info, argument, folder, image_size or info.image_size, seed, skip_corrupt)


@cache
def _streams() -> dict[str, StreamInfo]:
    infos: list[StreamInfo] = []
    for name in sorted(module.name for module in pkgutil.iter_modules(sources.__path__)):
        infos += importlib.import_module(f"{sources.__name__}.{name}").STREAMS
    # Built-in streams first, then what is read from published files, then the user's own.
    infos.sort(key=lambda info: (":" in info.name, info.needs_download))
    return {info.kind: info for info in infos}
