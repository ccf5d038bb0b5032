"""Finding methods and plug-ins: built-in ones by name, a user's own by the path of a file."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from gplasc._io.reading import read_text
from gplasc._io.text import did_you_mean
from gplasc.errors import UserError

_Kind = TypeVar("_Kind")
_USER = "gplasc_user_"  # the names of modules of users' files begin with this
_RESERVED = ("data", "model", "train", "probe")
_REFERENCES = "write FILE.py:function or package.module:function"
_copies: dict[str, Path] = {}


def list_methods() -> dict[str, str]:
    """Return the built-in methods by name, with one line about each; imports none of them."""
    return dict(_list("methods"))


def list_plugins() -> dict[str, str]:
    """Return the built-in plug-ins by name, with one line about each; imports none of them."""
    return dict(_list("plugins"))


def is_file(name: str) -> bool:
    """Tell whether a component is given by the path of a user's file."""
    return name.endswith(".py")


def short_name(component: Any) -> Any:
    """Return the name of a component for people, of a user's file its stem; what is no text stays."""
    return Path(component).stem if isinstance(component, str) and is_file(component) else component


def find_component(name: str, package: str, base: type[_Kind]) -> type[_Kind]:
    """Return the class, derived from `base`, in a module of "methods" or "plugins" or in a Python file."""
    noun = {"methods": "method", "plugins": "plug-in"}[package]
    if is_file(name):
        module = _import(name, noun)
    elif name in _list(package):
        module = importlib.import_module(f"gplasc.{package}.{name.replace('-', '_')}")
    else:
        hint = did_you_mean(name, _list(package))
        raise UserError(f"there is no {noun} {name!r:.99}; {hint} (your own: the path of a .py file)")
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base)]
    own = [kind for kind in kinds if kind.__module__ == module.__name__]
    if len(own) != 1:
        raise UserError(f"{module.__file__} defines {len(own)} subclasses of {base.__name__}; one is needed")
    return own[0]


def find_object(reference: str) -> object:
    """Return the encoder, or what builds it, that ``FILE.py:NAME`` or ``package.module:NAME`` names."""
    place, name = _split(reference)
    module = _import(place, "encoder")
    if not hasattr(module, name):
        public = [other for other in vars(module) if not other.startswith("_")]
        raise UserError(f"{place} has no '{name}'; {did_you_mean(name, public)}")
    value: object = getattr(module, name)
    return value


def source_digest(reference: str) -> str:
    """Return the SHA-256 of ``FILE.py``, ``FILE.py:NAME`` or ``package.module:NAME``, see `user_sources`."""
    place, name = (reference, "") if is_file(reference) else _split(reference)
    parts = user_sources(place) if is_file(place) else {"": read_text(_origin(place))}
    texts = [text for part in parts.items() for text in part][1:]  # the file itself has no name in it
    return hashlib.sha256("\0".join([name, *texts] if name else texts).encode()).hexdigest()


def user_sources(path: str) -> dict[str, str]:
    """Return the texts of a user's file and of the modules that it imports from its own folder, by path below it."""
    file = _copies.get(path, Path(path))
    texts, todo = {file.name: read_text(file)}, [file]
    for importer in todo:
        for module in _imported(texts[importer.relative_to(file.parent).as_posix()], importer, file.parent):
            for helper in (module.with_suffix(".py"), module / "__init__.py"):
                name = helper.relative_to(file.parent).as_posix()
                if name not in texts and helper.is_file():
                    texts[name] = read_text(helper)
                    todo.append(helper)
    return texts


def _imported(text: str, importer: Path, folder: Path) -> Iterator[Path]:
    """Yield where the modules that a file imports are, without suffix, if they are in the folder."""
    with suppress(SyntaxError, ValueError, IndexError):  # importing it says what is wrong
        for node in ast.walk(ast.parse(text)):
            names, base = [], folder
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = importer.parents[node.level - 1] if node.level else folder
                names = [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
            for name in names if base.is_relative_to(folder) else ():
                parts = name.split(".")
                if base != folder or parts[0] not in sys.stdlib_module_names:
                    yield from (base.joinpath(*parts[:end]) for end in range(1, len(parts) + 1))


def error_in_user_file(error: BaseException) -> str | None:
    """Return an error with the line of the user's file that raised it, or with the user's file that was at work."""
    reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
    frames = [*traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        if frame.f_globals.get("__name__", "").startswith(_USER):
            return f"{frame.f_code.co_filename}, line {line}, raised {reason}; correct the file"
    for frame, _ in frames:
        for value in frame.f_locals.values():
            for part in (value, *getattr(value, "components", ())):
                if (module := (part if isinstance(part, type) else type(part)).__module__).startswith(_USER):
                    file = sys.modules[module].__file__
                    return f"{reason}, with what {file} returned; `gplasc check {file}` looks for its mistake"
    return None


def section_names(method: str, plugins: tuple[str, ...]) -> list[str]:
    """Return under which name the settings of the method and of each plug-in stand.

    It is the component's name, or the name of its file; an underscore is added where that name is taken already.

    >>> section_names("co2l", ("gplasc",)), section_names("./train.py", ("x/a+b.py", "y/a+b.py"))
    (['co2l', 'gplasc'], ['train_', 'a+b', 'a+b_'])
    """
    names: list[str] = []
    for component in (method, *plugins):
        name = short_name(component)
        while name in _RESERVED or name in names:
            name += "_"
        names.append(name)
    return names


def read_from_copies(copies: Mapping[str, Path]) -> None:
    """Read users' files, by the paths that settings name, from copies on a machine without the originals."""
    _copies.update(copies)


def _split(reference: str) -> tuple[str, str]:
    place, _, name = reference.rpartition(":")
    if not place or not name.isidentifier():
        raise UserError(f"the encoder '{reference}' is no reference; {_REFERENCES}")
    return place, name


def _origin(module: str) -> str:
    """Return the path of an installed module."""
    with suppress(ImportError, ValueError):
        if (spec := importlib.util.find_spec(module)) and spec.origin:
            return spec.origin
    raise UserError(f"the encoder module {module} is not installed; {_REFERENCES}")


@lru_cache
def _list(package: str) -> dict[str, str]:
    folder = Path(__file__).parent.parent / package
    files = (path for path in sorted(folder.glob("*.py")) if path.stem not in ("__init__", "base"))
    docs = {file.stem: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "" for file in files}
    return {name.replace("_", "-"): text.partition("\n")[0] for name, text in docs.items()}


def _import(place: str, noun: str) -> ModuleType:
    """Import a user's file or an installed module."""
    try:
        if not is_file(place):
            return importlib.import_module(place)
        source = _copies.get(place, Path(place))
        # The digest of the path keeps two files of one name apart; a method's class must be importable for a traceback.
        name = f"{_USER}{hashlib.sha256(str(Path(place).absolute()).encode()).hexdigest()[:12]}"
        spec = importlib.util.spec_from_file_location(name, source)
        if spec is None or spec.loader is None or not source.is_file():
            raise UserError(f"the {noun} file {place} does not exist; give the path of a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        for helper in list(user_sources(place))[1:]:  # it may have been edited, or be another folder's
            parts = Path(helper).with_suffix("").parts
            sys.modules.pop(".".join(parts[:-1] if parts[-1] == "__init__" else parts), None)
        sys.path.insert(0, str(source.parent.absolute()))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(source.parent.absolute()))
        return module
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        kind = "file" if is_file(place) else "module"
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"the {noun} {kind} {place} cannot be imported: {reason}") from error
