"""Where tasks come from: data sets of the literature from their own files, folders, arrays, synthetic patterns.

    from gplasc.streams import open_stream

    for task in open_stream("seq-digits"):
        print(task.index, task.class_names, task.train.x.shape)

Importing this package is cheap; what needs torch is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gplasc.streams.catalog import find_stream, list_streams
from gplasc.streams.files import Dataset, Split
from gplasc.streams.info import StreamInfo

if TYPE_CHECKING:
    from gplasc.streams._fingerprint import fingerprint
    from gplasc.streams.arrays import from_dataset
    from gplasc.streams.dataset import Budget, build_stream
    from gplasc.streams.opening import open_stream
    from gplasc.streams.stream import Samples, Stream, Task

__all__ = [
    "Budget",
    "Dataset",
    "Samples",
    "Split",
    "Stream",
    "StreamInfo",
    "Task",
    "build_stream",
    "find_stream",
    "fingerprint",
    "from_dataset",
    "list_streams",
    "open_stream",
]

_LATER = ("stream", "dataset", "opening", "arrays", "_fingerprint")


def __getattr__(name: str) -> Any:
    for module in _LATER if name in __all__ else ():
        value = getattr(importlib.import_module(f"{__name__}.{module}"), name, None)
        if value is not None:
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
