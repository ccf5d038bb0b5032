"""One process at a time: a lock on a file, which the system releases when its holder dies."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


class Held(Exception):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock file `path` for the length of a `with` block; its folder is made when missing.

    The empty file stays, for the next process.

    On a file system without locks (some network mounts) the file NAME.soft takes the lock's place while the
    block runs, with a warning. A process that is killed leaves it behind; it is then recognized as stale on
    the same machine; on another one the user has to delete it. `Held` is raised if `wait` is False.
    """
    from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    timeout = -1 if wait else 0
    lock: BaseFileLock = FileLock(path)
    try:
        try:
            lock.acquire(timeout)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            warnings.warn(
                f"the file system of {path.parent} has no locks; a file is used instead", stacklevel=3
            )
            lock = SoftFileLock(path.with_name(f"{path.name}.soft"))
            lock.acquire(timeout)
    except Timeout:
        raise Held from None
    try:
        yield
    finally:
        lock.release()
