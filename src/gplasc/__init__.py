"""Class-incremental learning with contrastive and replay methods, and GPLASC as a plug-in for all of them.

>>> import gplasc
>>> criterion = gplasc.GPLASC(num_tasks=5, feature_dim=128)   # for a training loop of your own

The names below are imported when they are first used, so that ``import gplasc`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gplasc.classifier import ContinualClassifier
    from gplasc.components import list_methods, list_plugins
    from gplasc.config import Config
    from gplasc.criterion import GPLASC
    from gplasc.learning import Callback, Method, Plugin
    from gplasc.models import ForeignEncoder
    from gplasc.running import Result, run
    from gplasc.streams import list_streams, open_stream

__version__ = "0.2.0"

__all__ = [
    "GPLASC",
    "Callback",
    "Config",
    "ContinualClassifier",
    "ForeignEncoder",
    "Method",
    "Plugin",
    "Result",
    "list_methods",
    "list_plugins",
    "list_streams",
    "open_stream",
    "run",
]

_HOMES = {
    "GPLASC": "criterion",
    "Callback": "learning",
    "Config": "config",
    "ContinualClassifier": "classifier",
    "ForeignEncoder": "models",
    "Method": "learning",
    "Plugin": "learning",
    "Result": "running",
    "list_methods": "components",
    "list_plugins": "components",
    "list_streams": "streams",
    "open_stream": "streams",
    "run": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gplasc' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"gplasc.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
