"""Unpacking archives: nothing outside the target folder, bounded in size, and whole or not at all."""

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

from gplasc._io.files import temporary_folder
from gplasc._io.lock import locked
from gplasc._io.reading import open_regular
from gplasc.errors import UserError
from gplasc.streams.files import damaged

# The largest of the official archives (ImageNet-R) unpacks to 2.2 GB, Tiny-ImageNet has 120,609 members.
TOTAL_BYTES = 8 * 2**30
MEMBER_BYTES = 2**30
MEMBERS = 250_000
_HEADER_BYTES = 2**20

_Member = tuple[str, int, Callable[[], object]]  # its name and size, and what writes it
_DECOMPRESS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
_BAD_CONTENT = (zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError)
# RuntimeError: a zip with a password, or with a compression that cannot be read.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, *_BAD_CONTENT, RuntimeError)


def extract(archive: Path, into: Path) -> Path:
    """Unpack a tar (plain, gz, xz, bz2) or a zip into a folder of its own below `into`, once, and return it.

    The folder's name depends on the archive's place, size and age. Links, devices and names that lead out are refused;
    checksums inside the archive are verified to the end. Two processes may call this at once.
    """
    try:
        state = archive.stat()
        place = os.fsencode(archive.resolve()) + f"/{state.st_size}/{state.st_mtime_ns}".encode()
        target = into / f"{archive.name.split('.')[0]}-{hashlib.sha256(place).hexdigest()[:16]}"
        if target.is_dir():
            return target
        with locked(into / f"{target.name}.lock"):
            if not target.is_dir():
                with temporary_folder(target) as temporary:
                    _unpack(archive, temporary)
    except _DAMAGED as error:
        raise damaged(archive, f"is damaged, incomplete or refused ({str(error)[:200]})") from error
    except OSError as error:
        raise UserError(
            f"{archive} cannot be unpacked into {into}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    return target


def _unpack(archive: Path, target: Path) -> None:
    """Extract every member after its size was counted."""
    with open_regular(archive) as file:
        head = file.read(512)
    if not head.startswith((b"PK", *_DECOMPRESS)) and head[257:262] != b"ustar":
        what = "is neither a tar nor a zip archive" if head else "is empty"
        raise UserError(f"{archive} {what}; give the official archive, or the folder that holds the files")
    members, room = 0, min(TOTAL_BYTES, shutil.disk_usage(target).free)
    for name, size, write in (_zip_members if head.startswith(b"PK") else _tar_members)(archive, target):
        first, *others = name.replace("\\", "/").split("/")
        if not first or ":" in first or ".." in (first, *others):
            raise tarfile.ReadError(f"its member {name!r} would be written outside the target folder")
        members, room = members + 1, room - size
        if size > MEMBER_BYTES or members > MEMBERS or room < 0:
            raise UserError(
                f"{archive} unpacks to more than is allowed or the disk has room for "
                f"({MEMBERS:,} files, {MEMBER_BYTES >> 30} GB for one of them, {TOTAL_BYTES >> 30} GB in all); "
                "make room, set GPLASC_CACHE, or unpack it yourself and name the folder"
            )
        write()
    if not members:
        raise damaged(archive, "is an empty archive")


def _zip_members(archive: Path, target: Path) -> Iterator[_Member]:
    """Yield the members of a zip; zipfile itself keeps names inside the target."""
    with open_regular(archive) as file, zipfile.ZipFile(file) as packed:
        for member in packed.infolist():
            if stat.S_ISLNK(member.external_attr >> 16) or member.comment:  # one may hide the next member
                raise tarfile.ReadError(f"its member {member.filename!r} is a link or has a comment")
            yield member.filename, member.file_size, partial(packed.extract, member, target)


def _tar_members(archive: Path, target: Path) -> Iterator[_Member]:
    """Yield the members of a tar; tarfile's data filter keeps names inside the target."""
    with ExitStack() as stack:
        stream: Any = stack.enter_context(open_regular(archive))
        head = stream.peek(8)
        for decompress in (function for magic, function in _DECOMPRESS.items() if head.startswith(magic)):
            stream = stack.enter_context(decompress(stream))
        metered = _Metered(stream)
        tar = stack.enter_context(tarfile.open(fileobj=cast(Any, metered), mode="r|"))
        for member in tar:
            if not (member.isreg() or member.isdir()):
                raise tarfile.ReadError(f"its member {member.name!r} is a link or not a plain file")
            metered.allowed = member.size + _HEADER_BYTES
            extract = partial(tar.extract, member, target, set_attrs=False, filter="data")
            yield member.name, member.size, extract
            metered.allowed = _HEADER_BYTES
        # tarfile stops at the end mark; only reading on verifies the checksum of the compressed stream.
        metered.allowed = MEMBER_BYTES
        while metered.read(1 << 20):
            pass


class _Metered:
    """A stream that gives out `allowed` bytes at most: tarfile holds headers in memory, whatever their size."""

    allowed = _HEADER_BYTES

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def read(self, size: int) -> bytes:
        self.allowed -= size
        if self.allowed < 0:
            raise tarfile.ReadError("a header is too large, or it goes on behind its end")
        return cast(bytes, self.stream.read(size))
