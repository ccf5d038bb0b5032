"""Plug-ins compose with any method; the file name is the name on the command line."""

from typing import Any

from gplasc.learning import Plugin
from gplasc.settings.components import find_component


def find_plugin(name: str) -> type[Plugin[Any]]:
    """Return a plug-in's class by its name, or from a user's own file (``./mine.py``)."""
    component = find_component(name, "plugins", Plugin)
    component.check_hooks()
    return component
