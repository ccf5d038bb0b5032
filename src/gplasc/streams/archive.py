"""Unpacking archives: nothing outside the target folder, bounded in size, and whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from gplasc._io.files import temporary_folder
from gplasc._io.lock import locked
from gplasc.errors import UserError
from gplasc.streams.files import open_regular

# The largest of the official archives (ImageNet-R) unpacks to 2.2 GB, Tiny-ImageNet has 120,609 members.
TOTAL_BYTES = 8 * 2**30
MEMBER_BYTES = 2**30
MEMBERS = 250_000
_HEADER_BYTES = 2**20

_SUFFIXES = (".tar", ".tgz", ".tar.gz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"PK", "zip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))
_DECOMPRESS: dict[str, Callable[..., Any]] = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile)


def is_archive(path: Path) -> bool:
    """Tell whether a file is named like an archive (also when it is empty or cut) or begins like one."""
    return path.name.lower().endswith(_SUFFIXES) or _kind(path) != "unknown"


def extract(archive: Path, into: Path) -> Path:
    """Unpack a tar (plain, gz, xz, bz2) or a zip into a folder of its own below `into`, once.

    The folder's name depends on the archive's place, size and age, so a changed archive is unpacked anew.
    Members with absolute names, with "..", links and devices are refused before anything of them is written;
    checksums inside the archive are verified to the end. Two processes may call this at once.

    Returns:
        The folder.

    Raises:
        UserError: If the archive is damaged, was refused, is too large, or the disk is full.
    """
    try:
        stat = archive.stat()
        place = os.fsencode(archive.resolve()) + f"/{stat.st_size}/{stat.st_mtime_ns}".encode()
        target = into / f"{archive.name.split('.')[0]}-{hashlib.sha256(place).hexdigest()[:16]}"
        if target.is_dir():
            return target
        with locked(into / f"{target.name}.lock"):
            if not target.is_dir():
                with temporary_folder(target) as temporary:
                    _Unpacking(archive, temporary).run()
    except _DAMAGED as error:
        raise UserError(
            f"{archive} is damaged or incomplete ({str(error)[:200]}); delete it and get it again"
        ) from error
    except NotImplementedError as error:
        raise UserError(f"{archive} uses a compression that cannot be read ({error})") from error
    except OSError as error:
        raise UserError(
            f"{archive} cannot be unpacked into {into}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    return target


def _kind(path: Path) -> str:
    with open_regular(path) as file:
        head = file.read(512)
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return "tar" if head[257:262] == b"ustar" else "empty" if not head else "unknown"


class _Metered:
    """A stream that gives out `allowed` bytes at most: tarfile holds headers in memory, whatever their size."""

    def __init__(self, stream: BinaryIO | BufferedReader) -> None:
        self.stream = stream
        self.allowed = _HEADER_BYTES

    def read(self, size: int) -> bytes:
        self.allowed -= size
        if self.allowed < 0:
            raise tarfile.ReadError("a header is too large")
        return self.stream.read(size)


class _Unpacking:
    """One archive on its way into a folder: what was seen of it so far, and the checks of each member."""

    def __init__(self, archive: Path, target: Path) -> None:
        self.archive = archive
        self.target = target
        self.room = min(TOTAL_BYTES, shutil.disk_usage(target).free)
        self.seen: set[Path] = set()

    def run(self) -> None:
        kind = _kind(self.archive)
        if kind == "zip":
            self._zip()
        elif kind in ("unknown", "empty"):
            what = "is empty" if kind == "empty" else "is neither a tar nor a zip archive"
            raise UserError(f"{self.archive} {what}; delete it and get it again")
        else:
            self._tar(kind)
        if not self.seen:
            raise UserError(f"{self.archive} is an empty archive; delete it and get it again")

    def _tar(self, kind: str) -> None:
        with ExitStack() as stack:
            stream: BinaryIO | BufferedReader = stack.enter_context(open_regular(self.archive))
            if kind in _DECOMPRESS:
                stream = stack.enter_context(_DECOMPRESS[kind](stream))
            metered = _Metered(stream)
            with tarfile.open(fileobj=cast(BinaryIO, metered), mode="r|") as tar:
                for member in tar:
                    what = None if member.isreg() or member.isdir() else "not a plain file"
                    if member.issym() or member.islnk():
                        what = "a link"
                    self._check(member.name, member.size, what, is_folder=member.isdir())
                    metered.allowed = member.size + _HEADER_BYTES
                    tar.extract(member, self.target, set_attrs=False, filter="data")
                    metered.allowed = _HEADER_BYTES
            # tarfile stops at the end mark; only reading on verifies the checksum of the compressed stream.
            rest = 0
            while chunk := stream.read(1 << 20):
                rest += len(chunk)
                if rest > MEMBER_BYTES:
                    raise self._refused("it goes on behind its end")

    def _zip(self) -> None:
        with zipfile.ZipFile(self.archive) as packed:
            for member in packed.infolist():
                is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
                if member.flag_bits & 0x1:
                    raise UserError(
                        f"{self.archive} is locked with a password; unpack it yourself and name the folder"
                    )
                self._check(
                    member.filename,
                    member.file_size,
                    "a link" if is_link else None,
                    is_folder=member.is_dir(),
                )
                packed.extract(member, self.target)

    def _check(self, name: str, size: int, what: str | None, *, is_folder: bool) -> None:
        """Refuse a member that could be written elsewhere, replace another one, or fill the disk."""
        plain = name.replace("\\", "/")
        parts = [part for part in PurePosixPath(plain).parts if part != "."]
        if plain.startswith("/") or ".." in parts or "\0" in name or ":" in "".join(parts[:1]):
            raise self._refused(f"its member {name!r} would be written outside the target folder")
        if what is not None:
            raise self._refused(f"its member {name!r} is {what}")
        path = self.target.joinpath(*parts)
        if not is_folder and (path in self.seen or not parts):
            raise self._refused(f"it holds {name!r} twice")
        self.seen.add(path)
        self.room -= size
        if size > MEMBER_BYTES or len(self.seen) > MEMBERS or self.room < 0:
            raise UserError(
                f"{self.archive} unpacks to more than is allowed or the disk has room for "
                f"({MEMBERS:,} files, {MEMBER_BYTES >> 30} GB for one of them, {TOTAL_BYTES >> 30} GB in all); "
                "make room, set GPLASC_CACHE, or unpack it yourself and name the folder"
            )

    def _refused(self, reason: str) -> UserError:
        return UserError(f"{self.archive} was refused: {reason}")
