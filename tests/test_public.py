"""The public face: names with their signatures, how many there are, and texts that name modules.

``python tests/test_public.py`` writes tests/data/public.txt again after a decision to change a public name.
"""

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType

import pytest

import gplasc
import gplasc.errors
from gplasc._io import moved
from gplasc.cli import app

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gplasc"
PINNED = Path(__file__).parent / "data" / "public.txt"
MOST_ENTRIES = 150  # in all __all__ together, repeats counted
MOST_DEFINITIONS = 420  # public top-level functions and classes
NAMED = re.compile(r"^::: (\S+)|`(gplasc(?:\.\w+)+)`|\"(gplasc(?:\.\w+)+(?::\w+)?)\"", re.MULTILINE)
OTHERS = {
    "",
    *(f"gplasc.{name}" for name in ("csv", "frame", "safetensors", "sbatch", "yaml")),
}  # files, a generator


def faces() -> dict[str, list[str]]:
    """Return the entries of each ``__all__`` by module."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                parts = path.relative_to(SOURCE.parent).with_suffix("").parts
                found[".".join(parts).removesuffix(".__init__")] = ast.literal_eval(node.value)
    return found


def describe(name: str, value: object) -> Iterator[str]:
    """Yield the signature of a function, or those of a class and its public members; inherited ones are left out."""
    error = isinstance(value, type) and issubclass(value, Exception)
    signed = isinstance(value, type | FunctionType) and not error
    yield f"{name}{inspect.signature(value)}" if signed else f"{name}: {type(value).__name__}"
    for member, inner in sorted(vars(value).items()) if isinstance(value, type) else ():
        if member[0] != "_" and isinstance(inner, classmethod | staticmethod | FunctionType):
            yield f"{name}.{member}{inspect.signature(getattr(value, member))}"
        elif member[0] != "_" and isinstance(inner, property | cached_property):
            yield f"{name}.{member}"


def face() -> list[str]:
    """Return the lines of tests/data/public.txt: each object once, further names of it without signature."""
    lines, seen = [], set()
    for module, names in faces().items():
        for name in sorted(names):
            value = getattr(importlib.import_module(module), name)
            known = id(value) in seen
            lines += [f"{module}.{name}"] if known else describe(f"{module}.{name}", value)
            seen.add(id(value))
    return [re.sub(r" at 0x[0-9a-f]+", "", line) for line in lines]


def test_public_names_and_signatures():
    difference = difflib.unified_diff(
        PINNED.read_text(encoding="utf-8").splitlines(), face(), lineterm="", n=0
    )
    assert not list(difference), "a public name has changed; if it should: python tests/test_public.py"


def test_the_face_is_small():
    assert sum(map(len, faces().values())) <= MOST_ENTRIES


def test_public_definitions():
    """Names without an underscore, in files without one or that another package imports; _io is not counted."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    shared = set()
    for path, tree in trees.items():
        own = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gplasc."):
                package, *_ = node.module.split(".")[1:]
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
                shared |= {name for name in names if package != own}
    count = 0
    for path, tree in trees.items():
        parts = path.relative_to(SOURCE).with_suffix("").parts
        hidden = path.stem[0] == "_" != path.stem[1] and ".".join(("gplasc", *parts)) not in shared
        if parts[0] != "_io" and not hidden:
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            count += sum(isinstance(node, kinds) and node.name[0] != "_" for node in tree.body)
    assert count <= MOST_DEFINITIONS


def resolve(reference: str) -> object:
    """Return what ``package.module.Name.attribute`` or ``package.module:Name`` names."""
    try:
        return pkgutil.resolve_name(reference)
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("gplasc"):
            pytest.skip(f"{error.name} is not installed")
        raise
    except gplasc.errors.UserError as error:  # an integration whose framework is not there
        pytest.skip(str(error))


def texts() -> list[str]:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tests" / "soak").glob("*.py")]
    said = {m for path in files for groups in NAMED.findall(path.read_text(encoding="utf-8")) for m in groups}
    return sorted(said - OTHERS)


@pytest.mark.parametrize("reference", texts())
def test_texts_name_what_there_is(reference):
    resolve(reference)


def test_places_of_the_soak_test():
    from tests.soak.cuts import PLACES

    for module, name in PLACES.values():
        assert callable(getattr(resolve(module), name))


def test_commands_and_lazy_names():
    assert app.resolved_commands()
    assert set(gplasc._HOMES) == set(gplasc.__all__)
    assert all(getattr(gplasc, name) for name in gplasc.__all__)


@pytest.mark.parametrize("old", moved._MOVED)
def test_modules_that_moved(old):
    with pytest.raises(ModuleNotFoundError, match="has moved"):
        importlib.import_module(f"gplasc.{old}")
    for reference in re.findall(r"gplasc(?:\.\w+)+", moved._MOVED[old]):
        resolve(reference)


if __name__ == "__main__":
    PINNED.write_text("\n".join([*face(), ""]), encoding="utf-8")
