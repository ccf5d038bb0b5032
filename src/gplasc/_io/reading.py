"""The one door for files that come from outside: regular files only, bounded in size, errors in one sentence."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from gplasc.errors import UserError

_TEXT_BYTES = 64 * 2**20


class MissingError(UserError):
    """A file does not exist."""


def open_regular(path: Path | str) -> BufferedReader:
    """Open a file for reading bytes; a pipe, a device or a folder is refused without waiting for it.

    Raises:
        MissingError: If it does not exist.
        UserError: If it is not a regular file or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError(f"{path} cannot be read: it does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise UserError(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or error}; check its permissions"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} cannot be read: it is not a regular file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path | str, limit: int = _TEXT_BYTES) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; errors are those of `open_regular`."""
    with open_regular(path) as file, readable(path):
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > limit else file.read(limit + 1 if limit <= _TEXT_BYTES else size)
    if max(size, len(content)) > limit:
        raise UserError(f"{path} cannot be read: it has more than {limit:,} bytes, too many for what it is")
    return content


def read_text(path: Path | str) -> str:
    """Return the UTF-8 text of a regular file of at most 64 MB; errors are those of `open_regular`."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} cannot be read as text in UTF-8: {error}") from error


def user_path(path: Path | str) -> Path:
    """Return a path with the home folder in the place of ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UserError(
            f"{path} has no home folder in the place of ~ ({error}); write the whole path"
        ) from None


@contextmanager
def readable(name: object) -> Iterator[None]:
    """Turn errors of the operating system (permissions, a disk that fails) into one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename or name} cannot be read: {error.strerror or error}; check its permissions"
        ) from error
