"""Reading the pickles of published data sets without running anything of them.

A pickle is a small program. `pickle.Unpickler` runs it, with three restrictions: the names it may use are
replaced by functions of this file that build numbers, bytes and numeric arrays and nothing else; its
instructions are checked before the first one is run; and its size is limited, so that a small file can
neither take long nor fill the memory. Understood are the pickles of Python 2 and 3 and of numpy 1 and 2, all
protocols.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from gplasc.errors import UserError
from gplasc.streams.files import read_bytes

# The largest official file, CIFAR-100's training batch, has 155 MB, 300,000 instructions and 6 tuples.
_LARGEST = 256 * 2**20
_MOST_INSTRUCTIONS = 2 * 10**6
_MOST_TUPLES = 200
_REUSABLE_BYTES = 2**20
_NUMERIC = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} | {"f4", "f8", "b1"}

_TEXT = "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8"
_BYTES = "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"
_NUMBERS = "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT NONE NEWTRUE NEWFALSE"
_TUPLES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
_STORE = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_LOAD = {"GET", "BINGET", "LONG_BINGET"}
_OTHERS = (
    "PROTO FRAME STOP MARK EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE EMPTY_DICT DICT SETITEM "
    "SETITEMS GLOBAL STACK_GLOBAL REDUCE BUILD"
)
_ALLOWED = {*f"{_TEXT} {_BYTES} {_NUMBERS} {_OTHERS}".split(), *_TUPLES, *_STORE, *_LOAD}


class RefusedError(Exception):
    """The pickle asks for something that is not plain data."""


class DamagedError(Exception):
    """The pickle is not well formed."""


def read_pickle(path: Path) -> Any:
    """Return the plain value a pickle file holds. Text of Python 2 comes as bytes, arrays as numpy arrays.

    Raises:
        UserError: If the file cannot be read, is too large, damaged, or holds anything but plain data.
    """
    content = read_bytes(path, _LARGEST)
    try:
        return loads(content)
    except RefusedError as error:
        raise UserError(
            f"{path} was refused: {error}, and nothing of it was run; get the official file"
        ) from error
    except DamagedError as error:
        raise UserError(
            f"{path} is damaged or not a data file ({error}); delete it and get it again"
        ) from error


def loads(content: bytes) -> Any:
    """Return the plain value of a pickle.

    Raises:
        RefusedError: If it asks for something that is not plain data.
        DamagedError: If it is not well formed.
    """
    try:
        _check(content)
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except (RefusedError, DamagedError):
        raise
    except Exception as error:  # a damaged pickle may raise almost anything
        raise DamagedError(str(error).split("\n")[0][:100] or type(error).__name__) from error


def _check(content: bytes) -> None:
    """Refuse instructions that plain data does not need, before any of them is run.

    Tuples and long byte strings may be used once: a few bytes could nest a tuple so that hashing it takes
    forever. Places of the memory must be numbered one after the other: five bytes could ask for gigabytes.
    """
    once: set[int] = set()
    stored = tuples = 0
    before, reusable = "", True
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        name = opcode.name
        if name not in _ALLOWED:
            raise RefusedError(f"it holds the instruction {name}")
        if name == "FRAME":
            continue
        if name in _STORE:
            place = stored if name == "MEMOIZE" else argument
            if not isinstance(place, int) or not 0 <= place <= stored + 1 or before in _STORE:
                raise DamagedError("it uses its memory in an unusual way")
            stored += 1
            (once.discard if reusable else once.add)(place)
        elif name in _LOAD and argument in once:
            raise RefusedError("it uses a tuple or a long text twice")
        tuples += name in _TUPLES
        if tuples > _MOST_TUPLES or count > _MOST_INSTRUCTIONS:
            raise RefusedError("it holds more values than a data file")
        reusable = name not in _TUPLES and not (
            isinstance(argument, str | bytes | bytearray) and len(argument) > _REUSABLE_BYTES
        )
        before = name


class _Unpickler(pickle.Unpickler):
    """Finds the functions below in place of the names that a pickle mentions."""

    def find_class(self, module: str, name: str) -> Any:
        function = _KNOWN.get((module.replace("numpy._core", "numpy.core"), name))
        if function is None:
            raise RefusedError(f"it asks for {module[:60]}.{name[:60]}")
        return _Name(function)

    def persistent_load(self, pid: Any) -> NoReturn:
        raise RefusedError("it refers to something outside")


class _Name:
    """A name in a pickle: it can be called, and nothing else."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __setstate__(self, _: Any) -> NoReturn:
        raise RefusedError("it tries to change a function")


class _Type:
    """The type of an array: numpy writes its size first, then (as state) its byte order."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any, *_: Any) -> None:
        code = code.decode("latin-1") if isinstance(code, bytes) else code
        if code not in _NUMERIC:
            raise RefusedError(f"it holds an array of type {str(code)[:20]!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        _, order, *others = state
        order = order.decode("latin-1") if isinstance(order, bytes) else order
        if order not in ("<", ">", "|", "=") or any(other is not None for other in others[:3]):
            raise RefusedError("it holds an array of an unusual type")
        if order in "<>":
            self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray[Any, Any]):
    """An array in the making: numpy writes "make an array" first, then (as state) its content."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        content = _encode(content) if isinstance(content, str) else content
        _checked(shape, kind, content)
        super().__setstate__((1, shape, kind.dtype, bool(fortran), bytes(content)))  # type: ignore[arg-type]


def _checked(shape: Any, kind: Any, content: Any) -> None:
    if (
        not isinstance(kind, _Type)
        or not isinstance(shape, tuple)
        or not isinstance(content, bytes | bytearray)
    ):
        raise DamagedError("an array has no type, shape or content")
    if not all(type(length) is int and 0 <= length <= len(content) for length in shape):
        raise DamagedError("an array has an impossible shape")
    if prod(shape) * kind.dtype.itemsize != len(content):
        raise DamagedError(f"an array of shape {shape} has {len(content)} bytes")


def _reconstruct(kind: Any, *_: Any) -> _Array:
    if not isinstance(kind, _Name) or kind.function is not _ndarray:
        raise RefusedError("it rebuilds something that is not an array")
    return _Array((0,), np.uint8)


def _ndarray(*_: Any) -> NoReturn:
    raise RefusedError("it makes an array without content")


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> NDArray[Any]:
    _checked(shape, kind, content)
    return np.frombuffer(content, kind.dtype).reshape(shape, order="F" if order == "F" else "C")


def _scalar(kind: Any, content: Any) -> Any:
    content = _encode(content) if isinstance(content, str) else content
    _checked((1,), kind, content)
    return np.frombuffer(content, kind.dtype)[0].item()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", b"latin1"):
        raise RefusedError("it asks for an unusual encoding")
    return text.encode("latin-1")


def _no_bytes() -> bytes:
    return b""


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): _ndarray,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
}
