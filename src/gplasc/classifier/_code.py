"""Python files of the user's own, which a state carries along, with the modules that they import."""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gplasc._io.reading import read_text
from gplasc.errors import UserError
from gplasc.settings.components import is_file
from gplasc.streams.files import inside

_folders: list[tempfile.TemporaryDirectory[str]] = []  # as long as the process


def file_of(name: str) -> str:
    """Return the file of "FILE.py" or "FILE.py:function"; "" if the name is none of these."""
    place = name.rpartition(":")[0] if ".py:" in name else name
    return place if is_file(place) else ""


def moved(name: str, folder: str | Path) -> str:
    """Return the name of a user's file, or of what is in it, in another folder; other names as they are."""
    place = file_of(name)
    return str(Path(folder, Path(place).name)) + name[len(place) :] if place else name


def collect_code(names: Sequence[str]) -> dict[str, str]:
    """Return the source of users' files and of what they import from their own folders, by file name.

    Raises:
        UserError: If a file cannot be read, or two have the same name.
    """
    sources: dict[str, str] = {}
    origins: dict[str, Path] = {}
    waiting = [(Path(place).parent, Path(place).name) for place in map(file_of, names) if place]
    while waiting:
        root, name = waiting.pop()
        path = (root / name).resolve()
        if origins.setdefault(name, path) != path:
            raise UserError(f"two files are named {name}, {origins[name]} and {path}; rename one of them")
        if name not in sources:
            try:
                sources[name] = read_text(path)
                tree = ast.parse(sources[name])
            except (UnicodeDecodeError, SyntaxError, ValueError) as error:
                raise UserError(f"the file {path} cannot be read as Python ({error}); correct it") from None
            waiting += [(root, found) for found in _imported(tree, root)]
    return sources


def _imported(tree: ast.AST, root: Path) -> Iterator[str]:
    """Yield the files below a folder that a module imports, relative to it."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, name))) for name in names]
        for parts in (name.split(".") for name in names):
            for count in range(1, len(parts) + 1):
                place = "/".join(parts[:count])
                yield from (
                    file for file in (f"{place}.py", f"{place}/__init__.py") if (root / file).is_file()
                )


@contextmanager
def code_folder(sources: Mapping[str, str]) -> Iterator[Path | str]:
    """Yield a folder with copies of files that import each other, and nothing from where they came; "" without any.

    Raises:
        UserError: If a copy needs what was not copied.
    """
    if not sources:
        yield ""
        return
    folder = tempfile.TemporaryDirectory(prefix="gplasc-code-")
    _folders.append(folder)
    for name, source in sources.items():
        path = Path(folder.name) / inside(name, Path(folder.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    mine = {name.removesuffix(".py").split("/")[0] for name in sources}
    hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in mine}
    before = [*sys.path]
    sys.path.insert(0, folder.name)
    try:
        yield Path(folder.name)
    except UserError as error:
        if any(kind in str(error) for kind in ("ImportError", "ModuleNotFoundError", "FileNotFoundError")):
            raise UserError(
                f"{error}; a state carries a copy of your file and of the modules next to it, no other files: name "
                "weights by an absolute path, or pass the module in Python"
            ) from error
        raise
    finally:
        sys.path[:] = before
        sys.modules.update(hidden)
