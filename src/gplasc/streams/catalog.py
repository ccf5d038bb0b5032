"""The streams by name. Every file in `sources` declares its own; importing them imports nothing heavy."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.streams import sources
from gplasc.streams.info import StreamInfo


def list_streams() -> list[StreamInfo]:
    """Return every stream that `open_stream` can open, in the order in which listings show them."""
    return [info for info, _ in _streams().values()]


def find_stream(name: str | Path) -> tuple[StreamInfo, str]:
    """Split a name such as `folder:PATH` into the stream's facts and what follows the colon.

    Args:
        name: A stream's name, or a `pathlib.Path` of a folder of images or of an npz file.

    Returns:
        The facts, and the argument ("" if there is none).

    Raises:
        UserError: If there is no such stream, or its argument is missing or not allowed.
    """
    name = stream_name(name)
    kind, _, argument = name.partition(":")
    if kind in _streams():
        info, _ = _streams()[kind]
        if info.name != kind and not argument:
            raise UserError(
                f"the stream {name!r} lacks a path; write {info.name}, for example {kind}:my-data"
            )
        if argument and info.name == kind and not info.argument_optional:
            raise UserError(f"the stream {kind!r} takes nothing after a colon, but {argument!r} was given")
        return info, argument
    raise UserError(f"there is no stream {name!r}; {did_you_mean(kind, _streams())}")


def stream_name(name: object) -> str:
    """Return the name of a stream that was given by name or as a path.

    >>> stream_name(Path("my-images"))
    'folder:my-images'
    """
    if isinstance(name, Path):
        return f"npz:{name}" if name.suffix.lower() == ".npz" else f"folder:{name}"
    if isinstance(name, str):
        return name
    raise UserError(
        f"a stream is named by text or a pathlib.Path, but {type(name).__name__} was given; "
        'write for example "seq-digits" or Path("my-images")'
    )


def source_of(info: StreamInfo) -> ModuleType:
    """Return the module that reads a stream: it has `read(request)` and may have `files(request)`."""
    return _streams()[info.kind][1]


@cache
def _streams() -> dict[str, tuple[StreamInfo, ModuleType]]:
    found = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(sources.__path__)):
        module = importlib.import_module(f"{sources.__name__}.{name}")
        for info in module.STREAMS:
            if info.kind in found:
                raise ValueError(f"the stream {info.kind} is declared twice, the second time in {name}.py")
            found[info.kind] = (info, module)
    # Built-in streams first, then what is read from published files, then the user's own.
    order = sorted(found.values(), key=lambda entry: (":" in entry[0].name, entry[0].needs_download))
    return {info.kind: (info, module) for info, module in order}
