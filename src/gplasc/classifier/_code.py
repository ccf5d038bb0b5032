"""Python files of the user's own, which a state carries along, with the modules that they import."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.settings.components import is_file, user_sources
from gplasc.streams.files import inside

_folders: list[tempfile.TemporaryDirectory[str]] = []  # as long as the process


def file_of(name: str) -> str:
    """Return the file of "FILE.py" or "FILE.py:function"; "" if the name is none of these."""
    place = name.rpartition(":")[0] if ".py:" in name else name
    return place if is_file(place) else ""


def moved(values: Any, folder: str | Path | None) -> Any:
    """Return names, or lists and dicts of them, with users' files in another folder; None: where they are."""
    if isinstance(values, Mapping):
        return {key: moved(value, folder) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(moved(value, folder) for value in values)
    if folder is None or not isinstance(values, str) or not (place := file_of(values)):
        return values
    return str(Path(folder, Path(place).name)) + values[len(place) :]


def collect_code(names: Sequence[str]) -> dict[str, str]:
    """Return the source of users' files and of what they import from their own folders, by file name."""
    sources: dict[str, str] = {}
    for place in filter(None, map(file_of, names)):
        for name, text in user_sources(place).items():
            if sources.setdefault(name, text) != text:
                raise UserError(f"two different files are named {name}; rename one of them")
    return sources


@contextmanager
def code_folder(sources: Mapping[str, str]) -> Iterator[str | None]:
    """Yield a folder with copies of files; None without any. What they need and is not copied is an error."""
    if not sources:
        yield None
        return
    _folders.append(tempfile.TemporaryDirectory(prefix="gplasc-code-"))
    root = Path(_folders[-1].name)
    for name, source in sources.items():
        path = root / inside(name, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    try:
        yield str(root)
    except UserError as error:
        if any(kind in str(error) for kind in ("ModuleNotFoundError", "FileNotFoundError")):
            raise UserError(
                f"{error}; a state carries a copy of your file and of the modules next to it, no other files: name "
                "weights by an absolute path, or pass the module in Python"
            ) from error
        raise
