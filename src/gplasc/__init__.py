"""Class-incremental learning with contrastive and replay methods, and GPLASC as a plug-in for all of them.

>>> import gplasc
>>> criterion = gplasc.GPLASC(num_tasks=5, feature_dim=128)   # for a training loop of your own

The names below are imported when they are first used, so that ``import gplasc`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gplasc.config import Config
    from gplasc.criterion import GPLASC
    from gplasc.methods import list_methods
    from gplasc.running import Result, run
    from gplasc.streams import list_streams, open_stream

__version__ = "0.1.0"

__all__ = ["GPLASC", "Config", "Result", "list_methods", "list_streams", "open_stream", "run"]

_HOMES = {
    "GPLASC": "criterion",
    "Config": "config",
    "Result": "running",
    "run": "running",
    "list_methods": "methods",
    "list_streams": "streams",
    "open_stream": "streams",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gplasc' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"gplasc.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
