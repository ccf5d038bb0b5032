"""Pickles of published data sets: an allow-list of names, plain data as the result, bounded in size.

`pickle`'s unpickler in Python has a table of instructions that can be changed. Tuples become lists, so that
nothing nested is hashed (a few bytes could take forever), and only stand-ins of arrays take a state.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gplasc.streams.files import damaged, read_published

_LARGEST = 256 * 2**20  # the largest official file, CIFAR-100's training batch, has 155 MB


def read_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary that a pickle file holds, with text as keys and numpy arrays."""
    content = read_published(path, _LARGEST)
    try:
        value = dict(_Unpickler(content).load().items())
    except Exception as error:  # a damaged pickle may raise almost anything
        reason = str(error).split("\n")[0][:100] or type(error).__name__
        raise damaged(path, f"holds no plain dictionary ({reason}), and nothing of it was run") from error
    plain = {key: item.values if isinstance(item, _Array) else item for key, item in value.items()}
    return {key.decode("latin-1") if isinstance(key, bytes) else key: item for key, item in plain.items()}


class _Type:
    """Stands for numpy's type of an array: made with its kind and size, then given its byte order."""

    def __init__(self, code: Any, *_: Any) -> None:
        code = code.decode("latin-1") if isinstance(code, bytes) else str(code)
        if code[:1] not in "iufb" or not code[1:].isdecimal():
            raise pickle.UnpicklingError(f"it holds an array of type {code[:20]!r}")
        self.dtype = np.dtype(code)

    def set_state(self, state: list[Any]) -> None:
        self.dtype = self.dtype.newbyteorder({b"<": "<", b">": ">", b"|": "|"}.get(state[1], state[1]))


class _Array:
    """Stands for an array: made empty, then given its content."""

    def __init__(self, *_: Any) -> None:
        self.values = np.empty(0, np.uint8)

    def set_state(self, state: list[Any]) -> None:
        _, shape, kind, fortran, content = state
        self.values = _array(content, kind, shape, "F" if fortran else "C")


def _array(content: Any, kind: _Type, shape: Any, order: Any = "C") -> Any:
    return np.frombuffer(content, kind.dtype).reshape(shape, order="F" if order == "F" else "C")


_ALLOWED = {
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): lambda kind, content: _array(content, kind, (1,))[0].item(),
    ("numpy.core.numeric", "_frombuffer"): _array,
    ("builtins", "bytes"): lambda: b"",
    ("__builtin__", "bytes"): lambda: b"",
}


def _list_of(count: int) -> Callable[[Any], None]:
    """Return the instruction that makes a list of the last values."""
    return lambda self: self.stack.append([self.stack.pop() for _ in range(count)][::-1])


class _Unpickler(pickle._Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._room = _LARGEST  # a text may be encoded again and again

    def find_class(self, module: str, name: str) -> Any:
        key = module.replace("numpy._core", "numpy.core"), name
        if key == ("_codecs", "encode"):
            return self._encode
        if key not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module[:60]}.{name[:60]}")
        return _ALLOWED[key]

    def _encode(self, text: str, encoding: object = "latin1") -> bytes:
        self._room -= len(text)
        if self._room < 0 or encoding not in ("latin1", "latin-1", b"latin1"):
            raise pickle.UnpicklingError("it asks for an unusual encoding")
        return text.encode("latin-1")

    def _set_state(self: Any) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Type | _Array):
            raise pickle.UnpicklingError("it changes something that is not an array")
        self.stack[-1].set_state(state)

    dispatch = pickle._Unpickler.dispatch | {
        pickle.BUILD[0]: _set_state,
        pickle.EMPTY_TUPLE[0]: pickle._Unpickler.dispatch[pickle.EMPTY_LIST[0]],
        pickle.TUPLE[0]: pickle._Unpickler.dispatch[pickle.LIST[0]],
        pickle.TUPLE1[0]: _list_of(1),
        pickle.TUPLE2[0]: _list_of(2),
        pickle.TUPLE3[0]: _list_of(3),
    }
