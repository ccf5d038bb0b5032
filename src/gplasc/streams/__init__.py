"""Where tasks come from: data sets of the literature from their own files, folders, arrays, synthetic
patterns.

    from gplasc.streams import open_stream

    for task in open_stream("seq-digits"):
        print(task.index, task.class_names, task.train.x.shape)

Importing this package is cheap; what needs torch is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gplasc.streams.catalog import find_stream, list_streams
from gplasc.streams.info import StreamInfo

if TYPE_CHECKING:
    from gplasc.streams._fingerprint import fingerprint
    from gplasc.streams._objects import from_dataset
    from gplasc.streams.dataset import Budget, Dataset, Split, build_stream
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

_LATER = {
    "_fingerprint": ("fingerprint",),
    "dataset": ("Budget", "Dataset", "Split", "build_stream"),
    "_objects": ("from_dataset",),
    "opening": ("open_stream",),
    "stream": ("Samples", "Stream", "Task"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
