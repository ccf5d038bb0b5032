"""Small text files of data sets: read with an error that names them."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from gplasc.errors import UserError


def read_lines(path: Path) -> list[str]:
    """Return the lines that are not blank, without surrounding blanks."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing; unpack the official archive completely") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file; delete it and get it again") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{path} is empty; delete it and get it again")
    return lines


def inside(name: str, path: Path) -> str:
    """Return a file name that the list `path` mentions, unless it leads out of the data set's folder."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name or "\0" in name:
        raise UserError(
            f"{path} names the file {name!r}, which lies outside the data set; get the official file"
        )
    return name
