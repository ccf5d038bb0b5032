"""Reading Python pickles of data without running them.

A pickle is a small program. This reader walks through its instructions and carries out only those that build
plain values: numbers, text, bytes, lists, tuples, dictionaries and numeric numpy arrays (which it builds
itself, from shape, type and bytes). Whatever else a pickle asks for is refused; there is no instruction here
that could call something, so nothing of a hostile file runs. Understood are the pickles of Python 2 and 3 and
of numpy 1 and 2, all protocols.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gplasc.errors import UserError

# Names a data pickle may mention; each is carried out by this file, never by the thing it names.
_RECONSTRUCT = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
_SCALAR = {("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar")}
_FROM_BUFFER = {("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer")}
_NDARRAY = {("numpy", "ndarray")}
_DTYPE = {("numpy", "dtype")}
_ENCODE = {("_codecs", "encode")}
_BYTES = {("__builtin__", "bytes"), ("builtins", "bytes")}
_KNOWN = _RECONSTRUCT | _SCALAR | _FROM_BUFFER | _NDARRAY | _DTYPE | _ENCODE | _BYTES

_NUMERIC = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} | {"f4", "f8", "b1"}


class RefusedError(Exception):
    """The pickle asks for something that is not plain data."""


class DamagedError(Exception):
    """The pickle is not well formed."""


@dataclass(frozen=True)
class _Global:
    module: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        return self.module, self.name


class _Array:
    """An array still being built: numpy writes "make an array" and "this is its content" apart."""

    def __init__(self) -> None:
        self.value: NDArray[Any] | None = None


class _Dtype:
    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "<"

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.code if self.code.endswith("1") else self.order + self.code)


_MARK = object()


def read_pickle(path: Path) -> Any:
    """Return the plain value a pickle file holds. Text of Python 2 comes as bytes, arrays as numpy arrays."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise UserError(f"{path} is empty; delete it and get it again")
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
    """Return the plain value of a pickle; raises RefusedError or DamagedError."""
    try:
        return _Machine().run(content)
    except (RefusedError, DamagedError):
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise DamagedError(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


class _Machine:
    """The stack machine of the pickle format, without the instructions that call anything."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name in _IGNORED:
                continue
            if name == "STOP":
                return _finished(self.pop())
            if name in _LITERALS:
                self.stack.append(argument)
                continue
            step = getattr(self, f"do_{name.lower()}", None)
            if step is None:
                raise RefusedError(f"it holds the instruction {name}")
            step(argument)
        raise DamagedError("it ends early")

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise DamagedError("a mark stands where a value should be")
        return value

    def top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise DamagedError(f"a {kind.__name__} is missing")
        return self.stack[-1]

    def pop_to_mark(self) -> list[Any]:
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is _MARK:
                items = self.stack[start + 1 :]
                del self.stack[start:]
                return items
        raise DamagedError("a mark is missing")

    # constants
    def do_none(self, _: Any) -> None:
        self.stack.append(None)

    def do_newtrue(self, _: Any) -> None:
        self.stack.append(True)

    def do_newfalse(self, _: Any) -> None:
        self.stack.append(False)

    # Python 2 text: genops hands it over decoded as latin-1, the file held bytes.
    def do_string(self, argument: str) -> None:
        self.stack.append(argument.encode("latin-1"))

    do_binstring = do_short_binstring = do_string

    # containers
    def do_mark(self, _: Any) -> None:
        self.stack.append(_MARK)

    def do_empty_list(self, _: Any) -> None:
        self.stack.append([])

    def do_list(self, _: Any) -> None:
        self.stack.append(self.pop_to_mark())

    def do_append(self, _: Any) -> None:
        value = self.pop()
        self.top(list).append(value)

    def do_appends(self, _: Any) -> None:
        values = self.pop_to_mark()
        self.top(list).extend(values)

    def do_empty_tuple(self, _: Any) -> None:
        self.stack.append(())

    def do_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self.pop_to_mark()))

    def do_tuple1(self, _: Any) -> None:
        self.stack.append((self.pop(),))

    def do_tuple2(self, _: Any) -> None:
        second, first = self.pop(), self.pop()
        self.stack.append((first, second))

    def do_tuple3(self, _: Any) -> None:
        third, second, first = self.pop(), self.pop(), self.pop()
        self.stack.append((first, second, third))

    def do_empty_dict(self, _: Any) -> None:
        self.stack.append({})

    def do_dict(self, _: Any) -> None:
        items = self.pop_to_mark()
        self.stack.append({})
        self._set(items)

    def do_setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self._set([key, value])

    def do_setitems(self, _: Any) -> None:
        items = self.pop_to_mark()
        self._set(items)

    def _set(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2:
            raise DamagedError("a dictionary has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Nothing deeper: hashing a deeply nested tuple can exhaust the C stack.
            if not isinstance(key, str | bytes | int):
                raise RefusedError(f"it uses a {type(key).__name__} as a key")
            target[key] = value

    # memory of the machine
    def do_put(self, argument: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            raise DamagedError("there is nothing to remember")
        self.memo[argument] = self.stack[-1]

    do_binput = do_long_binput = do_put

    def do_memoize(self, _: Any) -> None:
        self.do_put(len(self.memo))

    def do_get(self, argument: int) -> None:
        if argument not in self.memo:
            raise DamagedError("it refers to something that is not there")
        self.stack.append(self.memo[argument])

    do_binget = do_long_binget = do_get

    def do_pop(self, _: Any) -> None:
        self.stack.pop()

    def do_pop_mark(self, _: Any) -> None:
        self.pop_to_mark()

    def do_dup(self, _: Any) -> None:
        self.stack.append(self.top(object))

    # names, and the few things a name may be used for
    def do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._name(module, name)

    def do_stack_global(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self._name(module, name)

    def _name(self, module: Any, name: Any) -> None:
        if (module, name) not in _KNOWN:
            raise RefusedError(f"it asks for {str(module)[:60]}.{str(name)[:60]}")
        self.stack.append(_Global(module, name))

    def do_reduce(self, _: Any) -> None:
        arguments, what = self.pop(), self.pop()
        if not isinstance(what, _Global) or not isinstance(arguments, tuple):
            raise RefusedError("it tries to call a value")
        key = what.key
        if key in _RECONSTRUCT:
            if not arguments or not isinstance(arguments[0], _Global) or arguments[0].key not in _NDARRAY:
                raise RefusedError("it rebuilds something that is not an array")
            self.stack.append(_Array())
        elif key in _DTYPE:
            self.stack.append(_Dtype(_type_code(arguments)))
        elif key in _SCALAR:
            kind, data = arguments
            if not isinstance(kind, _Dtype):
                raise RefusedError("it holds a number of an unknown type")
            self.stack.append(np.frombuffer(_as_bytes(data), kind.numpy(), count=1)[0].item())
        elif key in _FROM_BUFFER:
            data, kind, shape, order = arguments
            self.stack.append(_build(shape, kind, _as_bytes(data), fortran=order == "F"))
        elif key in _ENCODE:
            text, encoding = arguments
            if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
                raise RefusedError("it asks for an unusual encoding")
            self.stack.append(text.encode("latin-1"))
        elif key in _BYTES and arguments == ():
            self.stack.append(b"")
        else:
            raise RefusedError(f"it tries to call {what.module}.{what.name}")

    def do_build(self, _: Any) -> None:
        state = self.pop()
        target = self.top(object)
        if isinstance(target, _Array) and isinstance(state, tuple) and len(state) == 5:
            _, shape, kind, fortran, data = state
            target.value = _build(shape, kind, _as_bytes(data), fortran=bool(fortran))
        elif isinstance(target, _Dtype) and isinstance(state, tuple) and len(state) >= 5:
            if state[1] not in ("<", ">", "|", "=", b"<", b">", b"|", b"=") or any(state[2:5]):
                raise RefusedError("it holds an array of an unusual type")
            order = state[1].decode() if isinstance(state[1], bytes) else state[1]
            target.order = order if order in "<>" else "<"
        else:
            raise RefusedError(f"it tries to change the insides of a {type(target).__name__}")


_IGNORED = {"PROTO", "FRAME"}
_LITERALS = {
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "FLOAT",
    "BINFLOAT",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
    "BYTEARRAY8",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
}


def _type_code(arguments: tuple[Any, ...]) -> str:
    code = arguments[0] if arguments else None
    if isinstance(code, bytes):
        code = code.decode("latin-1")
    if code not in _NUMERIC:
        raise RefusedError(f"it holds an array of type {str(code)[:20]!r}")
    assert isinstance(code, str)
    return code


def _as_bytes(data: Any) -> bytes:
    if isinstance(data, str):  # numpy arrays pickled by Python 3 for protocol 0
        return data.encode("latin-1")
    if not isinstance(data, bytes | bytearray):
        raise DamagedError("the content of an array is missing")
    return bytes(data)


def _build(shape: Any, kind: Any, data: bytes, *, fortran: bool) -> NDArray[Any]:
    if not isinstance(kind, _Dtype) or not isinstance(shape, tuple):
        raise DamagedError("an array has no type or no shape")
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise DamagedError("an array has an impossible shape")
    dtype = kind.numpy()
    if prod(shape) * dtype.itemsize != len(data):
        raise DamagedError(f"an array of shape {shape} has {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _finished(value: Any) -> Any:
    """Put arrays in place of their stand-ins: the value itself, or one and two levels down in containers."""
    if isinstance(value, _Array):
        if value.value is None:
            raise DamagedError("an array has no content")
        return value.value
    if isinstance(value, dict):
        return {key: _finished_item(item) for key, item in value.items()}
    return _finished_item(value)


def _finished_item(value: Any) -> Any:
    if isinstance(value, _Array):
        return _finished(value)
    if isinstance(value, list) and any(isinstance(item, _Array) for item in value):
        return [_finished(item) if isinstance(item, _Array) else item for item in value]
    return value
