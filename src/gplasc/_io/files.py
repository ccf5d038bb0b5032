"""Files and folders that are whole or absent: write under a temporary name next to the target, then rename."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gplasc.errors import UserError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp(\.[^.]*)?")


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path to write; on success it becomes `path`, on failure it is deleted.

    The temporary name keeps the suffix (writers choose their format by it) and lies in the same folder,
    made when missing, because a rename is atomic only inside one file system.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        # Without this a power cut may leave the new name on an empty file.
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write {path}: {reason}; choose another place or make room") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_atomic(path: Path | str, content: bytes | memoryview | str) -> Path:
    """Write `content` (text as UTF-8, line ends as given) so that no reader ever sees half of it."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder to fill; on success it replaces `target`, on failure it is deleted.

    Call it while you hold a lock for `target`: what earlier, killed processes left behind for the same
    target is deleted first.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for old in target.parent.glob(f".{target.name}.*.tmp"):
        shutil.rmtree(old, ignore_errors=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(folder: Path) -> list[Path]:
    """Delete the temporary files that killed processes left in `folder`, and return their paths.

    Call it while you hold the lock of the folder: a temporary file of a process at work looks the same.
    """
    leftovers = [entry for entry in folder.glob(".*") if _TEMPORARY.fullmatch(entry.name)]
    for path in leftovers:
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return leftovers
