"""One process at a time: a lock on a file, which the system releases when its holder dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time
else:
    import fcntl


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock `path`, waiting for whoever holds it now. The empty file stays, for the next one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if sys.platform == "win32":
            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:  # LK_LOCK gives up after ten seconds
                    time.sleep(0.1)
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield  # closing the file releases the lock
