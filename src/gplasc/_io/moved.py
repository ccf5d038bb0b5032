"""Modules that have moved: the imports that users have keep working, the others name the new home."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_ALIASES = {"config": ("settings.types", "settings.parse"), "loop": ("criterion.loop",)}
"""Old modules that can still be imported, and the modules that have their names now."""

_HOMES = {
    "gplasc.runs": "build cost encoders features resolve restore running show",
    "gplasc._io": "files lock progress transfer",
    "gplasc.study": "sweep tune",
    "gplasc.settings": "components presets",
    "gplasc.losses": "losses.relation",
    "gplasc.learning": "learning.batchnorm learning.digest learning.gradients learning.sgd",
    "gplasc.streams": "streams.images streams.pixels",
    "gplasc.paper": "experiments",
    "gplasc.published": "reference",
    "gplasc.classifier.export": "export",
    "gplasc.memory.quadratic": "quadratic",
    "benchmarks/ of the source tree": "bench",
}
_MOVED = {old: home for home, names in _HOMES.items() for old in names.split()}


class _Finder(MetaPathFinder, Loader):
    """Finds the modules that were moved; the import system asks it last."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, old = name.partition(".")
        if package != "gplasc":
            return None
        if old in _ALIASES:
            return importlib.util.spec_from_loader(name, self)
        if old in _MOVED:
            raise ModuleNotFoundError(f"gplasc.{old} has moved; see {_MOVED[old]}", name=name)
        return None

    def exec_module(self, module: ModuleType) -> None:
        for home in _ALIASES[module.__name__.partition(".")[2]]:
            public = vars(importlib.import_module(f"gplasc.{home}"))
            vars(module).update({name: value for name, value in public.items() if not name.startswith("_")})


def install() -> None:
    """Add the finder to the import system."""
    sys.meta_path.append(_Finder())
