"""Unpacking archives so that nothing is written outside the target folder, and only whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import secrets
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import IO

from gplasc.errors import UserError
from gplasc.lock import locked

_CHUNK = 1 << 20

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile)
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"PK", "zip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))


def is_archive(path: Path) -> bool:
    """Tell whether a file is named like an archive (also when it is empty or cut) or begins like one."""
    if path.name.lower().endswith((".tar", ".tgz", ".tar.gz", ".tar.xz", ".txz", ".tar.bz2", ".zip")):
        return True
    return _kind(path) != "unknown"


def extract(archive: Path, into: Path) -> Path:
    """Unpack a tar (plain, gz, xz, bz2) or a zip into a folder of its own below `into`, once, and return that
    folder.

    The folder's name depends on the archive's place, size and age, so a changed archive is unpacked anew.
    Members with absolute names, with "..", links and devices are refused before anything of them is written;
    checksums inside the archive are verified to the end. Two processes may call this at once.
    """
    try:
        stat = archive.stat()
    except OSError as error:
        raise UserError(f"{archive} cannot be read: {error.strerror}") from error
    key = hashlib.sha256(f"{archive.resolve()}/{stat.st_size}/{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    target = into / f"{archive.name.split('.')[0]}-{key}"
    if target.is_dir():
        return target
    try:
        with locked(into / f"{target.name}.lock"):
            if target.is_dir():
                return target
            temporary = into / f".{target.name}.{secrets.token_hex(4)}"
            temporary.mkdir(parents=True)
            try:
                _unpack(archive, temporary)
                temporary.rename(target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except _DAMAGED as error:
        raise UserError(
            f"{archive} is damaged or incomplete ({error}); delete it and get it again"
        ) from error
    except OSError as error:
        raise UserError(
            f"{archive} cannot be unpacked into {into}: {error.strerror or error}; "
            "make room, or name another cache folder with GPLASC_CACHE"
        ) from error
    return target


def _unpack(archive: Path, target: Path) -> None:
    kind = _kind(archive)
    if kind == "zip":
        _unpack_zip(archive, target)
    elif kind == "unknown":
        size = archive.stat().st_size
        what = "is empty" if size == 0 else "is neither a tar nor a zip archive"
        raise UserError(f"{archive} {what}; delete it and get it again")
    else:
        _unpack_tar(archive, target, kind)


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return "tar" if head[257:262] == b"ustar" else "unknown"


@contextmanager
def _decompressed(path: Path, kind: str) -> Iterator[BufferedIOBase]:
    with path.open("rb") as raw:
        if kind == "gzip":
            with gzip.GzipFile(fileobj=raw) as file:
                yield file
        elif kind == "xz":
            with lzma.LZMAFile(raw) as file:
                yield file
        elif kind == "bzip2":
            with bz2.BZ2File(raw) as file:
                yield file
        else:
            yield raw


def _unpack_tar(archive: Path, target: Path, kind: str) -> None:
    with _decompressed(archive, kind) as stream:
        count = 0
        with tarfile.open(fileobj=stream, mode="r|", ignore_zeros=False) as tar:
            for member in tar:
                count += 1
                path = _inside(archive, member.name, target)
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                if not member.isreg():
                    what = "a link" if member.issym() or member.islnk() else "not a plain file"
                    raise UserError(f"{archive} was refused: its member {member.name!r} is {what}")
                source = tar.extractfile(member)
                assert source is not None  # it is a plain file
                with source:
                    _write(archive, source, path, member.size, target)
        if count == 0:
            raise UserError(f"{archive} is an empty archive; delete it and get it again")
        # tarfile stops at the end mark; only reading on verifies the checksum of the compressed stream.
        while stream.read(_CHUNK):
            pass


def _unpack_zip(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = packed.infolist()
        if not members:
            raise UserError(f"{archive} is an empty archive; delete it and get it again")
        for member in members:
            path = _inside(archive, member.filename, target)
            if (member.external_attr >> 16) & 0o170000 == 0o120000:
                raise UserError(f"{archive} was refused: its member {member.filename!r} is a link")
            if member.flag_bits & 0x1:
                raise UserError(
                    f"{archive} is locked with a password; unpack it yourself and name the folder"
                )
            if member.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            try:
                with packed.open(member) as source:
                    _write(archive, source, path, member.file_size, target)
            except NotImplementedError as error:
                raise UserError(f"{archive} uses a compression that cannot be read ({error})") from error


def _inside(archive: Path, name: str, target: Path) -> Path:
    """Where a member goes; refuses every name that could lead out of the target."""
    plain = name.replace("\\", "/")
    parts = [part for part in PurePosixPath(plain).parts if part != "."]
    if plain.startswith("/") or ".." in parts or "\0" in name or any(":" in part for part in parts[:1]):
        raise UserError(
            f"{archive} was refused: its member {name!r} would be written outside the target folder"
        )
    return target.joinpath(*parts)


def _write(archive: Path, source: IO[bytes], path: Path, size: int, target: Path) -> None:
    if path.exists() or path == target:
        raise UserError(f"{archive} was refused: it holds {path.name!r} twice")
    if size > shutil.disk_usage(target).free:
        raise UserError(
            f"{archive} needs more room than the disk of {target.parent} has; make room or set GPLASC_CACHE"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("xb") as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)
            written += len(chunk)
    if written != size:
        raise UserError(
            f"{archive} is damaged or incomplete: {path.name} ends early; delete it and get it again"
        )
