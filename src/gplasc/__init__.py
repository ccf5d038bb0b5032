"""Class-incremental learning with contrastive and replay methods, and GPLASC as a plug-in for all of them.

>>> import gplasc
>>> criterion = gplasc.GPLASC(num_tasks=5, feature_dim=128)   # for a training loop of your own

The names below are imported when they are first used, so that ``import gplasc`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gplasc._io import moved

if TYPE_CHECKING:
    from gplasc.classifier import ContinualClassifier
    from gplasc.criterion import GPLASC
    from gplasc.criterion.loop import GPLASCLoop
    from gplasc.learning import Callback, Method, Plugin
    from gplasc.models import ForeignEncoder
    from gplasc.runs.execute import run
    from gplasc.runs.result import Result, load_runs
    from gplasc.settings.components import list_methods, list_plugins
    from gplasc.settings.types import Config, Settings
    from gplasc.streams import list_streams, open_stream
    from gplasc.study.compare import compare

__version__ = "0.2.0"

__all__ = [
    "GPLASC",
    "Callback",
    "Config",
    "ContinualClassifier",
    "ForeignEncoder",
    "GPLASCLoop",
    "Method",
    "Plugin",
    "Result",
    "Settings",
    "compare",
    "list_methods",
    "list_plugins",
    "list_streams",
    "load_runs",
    "open_stream",
    "run",
]

_HOMES = {
    "GPLASC": "criterion",
    "Callback": "learning",
    "Config": "settings.types",
    "ContinualClassifier": "classifier",
    "ForeignEncoder": "models",
    "GPLASCLoop": "criterion.loop",
    "Method": "learning",
    "Plugin": "learning",
    "Result": "runs.result",
    "Settings": "settings.types",
    "compare": "study.compare",
    "list_methods": "settings.components",
    "list_plugins": "settings.components",
    "list_streams": "streams",
    "load_runs": "runs.result",
    "open_stream": "streams",
    "run": "runs.execute",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gplasc' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"gplasc.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


moved.install()
