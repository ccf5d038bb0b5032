"""Reading files that come from outside: regular files only, never more than expected, errors in one sentence."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from gplasc.errors import UserError

_TEXT_BYTES = 64 * 2**20


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading bytes; a pipe, a device or a folder is refused without waiting for it.

    Raises:
        UserError: If the file is missing, cannot be read or is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; unpack the official archive completely") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is not a regular file; replace it by one")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a file that is neither empty nor larger than `limit` bytes.

    Raises:
        UserError: If it cannot be read, is empty or is larger.
    """
    with open_regular(path) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise UserError(f"{path} is empty; delete it and get it again")
    if len(content) > limit:
        raise UserError(
            f"{path} has more than {limit:,} bytes, which is too large for this data set; "
            "delete it and get it again"
        )
    return content


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file that are not blank, without surrounding blanks.

    Raises:
        UserError: If it cannot be read, is not text or has no lines.
    """
    try:
        text = read_bytes(path, _TEXT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file; delete it and get it again") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{path} is empty; delete it and get it again")
    return lines


def inside(name: str, path: Path) -> str:
    """Return a file name that the list `path` mentions.

    Raises:
        UserError: If it leads out of the data set's folder.
    """
    if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
        raise UserError(
            f"{path} names the file {name!r}, which lies outside the data set; get the official file"
        )
    return name
