"""Files that are whole or absent: write to a temporary name beside the target, then rename."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gplasc.errors import UserError


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path to write; on success it becomes `path`, on failure it vanishes.

    The temporary name keeps the suffix (writers choose their format by it) and lies in the same folder,
    made when missing, because a rename is atomic only inside one file system.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
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


def write_atomic(path: Path | str, content: bytes | str) -> Path:
    """Write `content` (text as UTF-8, line ends as given) so that no reader ever sees half of it."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)
