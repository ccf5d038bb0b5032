"""One file per method; the file name is the name on the command line, and nothing has to be registered."""

from typing import Any

from gplasc.learning import Method
from gplasc.settings.components import find_component


def find_method(name: str) -> type[Method[Any]]:
    """Return a method's class by its name, or from a user's own file (``./mine.py``)."""
    component = find_component(name, "methods", Method)
    component.check_hooks()
    return component
