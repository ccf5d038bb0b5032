"""Plug-ins compose with any method; the file name is the name on the command line."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc.config import nearest
from gplasc.errors import UserError
from gplasc.methods import find_class, list_components

if TYPE_CHECKING:
    from gplasc.plugins.base import Plugin


def list_plugins() -> dict[str, str]:
    """Return the plug-ins by name, with one line about each."""
    return dict(list_components(Path(__file__).parent))


def find_plugin(name: str) -> type[Plugin[Any]]:
    """Return a plug-in's class by its name."""
    from gplasc.plugins.base import Plugin

    if name not in list_plugins():
        raise UserError(f"there is no plug-in '{name}'; {nearest(name, list_plugins())}")
    found: type[Plugin[Any]] = find_class(importlib.import_module(f"{__name__}.{name}"), Plugin)
    return found
