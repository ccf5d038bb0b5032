"""One file per method; the file name is the name on the command line, and nothing has to be registered."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from gplasc.config import nearest
from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.methods.base import Method


@lru_cache
def list_components(folder: Path) -> dict[str, str]:
    """Return name and first docstring line of each module in a folder, without importing any."""
    found = {}
    for module in pkgutil.iter_modules([str(folder)]):
        if module.name != "base":
            text = (folder / f"{module.name}.py").read_text(encoding="utf-8")
            found[module.name] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def list_methods() -> dict[str, str]:
    """Return the methods by name, with one line about each."""
    return dict(list_components(Path(__file__).parent))


def find_method(name: str) -> type[Method[Any]]:
    """Return a method's class by its name, or from a user's own file (``./mine.py``)."""
    from gplasc.methods.base import Method

    if name.endswith(".py"):
        return cast("type[Method[Any]]", find_class(_load_file(Path(name)), Method))
    if name not in list_methods():
        raise UserError(
            f"there is no method '{name}'; {nearest(name, list_methods())} (your own: the path of a .py file)"
        )
    return cast("type[Method[Any]]", find_class(importlib.import_module(f"{__name__}.{name}"), Method))


def find_class(module: ModuleType, base: type) -> Any:
    """Return the one subclass of ``base`` that a module defines."""
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    ]
    if len(own) != 1:
        raise UserError(
            f"{module.__file__} defines {len(own)} subclasses of {base.__name__}; exactly one is needed"
        )
    return own[0]


def _load_file(path: Path) -> ModuleType:
    name = f"gplasc_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"the method file {path} does not exist; give the path of a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(
            f"the method file {path} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return module
