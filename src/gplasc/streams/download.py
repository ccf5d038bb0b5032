"""Downloading data sets from their publishers: checksum, progress bar, and resuming where it broke off."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.streams.catalog import find_stream
from gplasc.streams.info import Download
from gplasc.streams.locate import search_places

_TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte


def download(name: str, data_dir: Path | None = None) -> list[Path]:
    """Download the files of a data set into `data_dir`, or where data is looked for first.

    Files that are there with the right checksum are left alone.

    Returns:
        The paths of the files.

    Raises:
        UserError: If there is nothing to download, or the download failed.
    """
    info, _ = find_stream(name)
    if not info.downloads:
        raise UserError(f"{info.name} needs no download")
    folder = search_places(data_dir)[0]
    if folder.is_file():
        raise UserError(f"{folder} is a file; name a folder to download into")
    return [_fetch(file, folder / file.folder) for file in info.downloads]


def _fetch(file: Download, folder: Path) -> Path:
    import logging

    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    reason = ""
    for url in file.urls:
        try:
            fetched = pooch.retrieve(
                url, file.checksum, fname=file.name, path=folder, downloader=Resuming(folder / file.name)
            )
            return Path(fetched)
        except requests.exceptions.RequestException as error:
            reason = _short(error)
        except ValueError as error:  # pooch: the checksum does not match; it has deleted the file
            raise UserError(
                f"what {url} sent is not {file.name} ({file.checksum} was expected); try again, "
                f"or put the file into {folder} yourself"
            ) from error
        except OSError as error:
            raise UserError(
                f"{file.name} cannot be written to {folder}: {error.strerror or error}"
            ) from error
    raise UserError(
        f"{file.urls[0]} cannot be reached ({reason}); run this again when you are online, "
        f"it resumes where it stopped, or put {file.name} into {folder} yourself"
    )


class Resuming:
    """A downloader for pooch that keeps what it has in NAME.part and resumes from there the next time."""

    def __init__(self, target: Path) -> None:
        self.part = target.with_name(f"{target.name}.part")

    def __call__(self, url: str, output_file: str, _: Any, check_only: bool = False) -> bool | None:
        """Download `url` to `output_file`; redirects to plain http are not followed to their content."""
        import requests

        if check_only:
            return bool(requests.head(url, timeout=_TIMEOUT, allow_redirects=True).ok)
        have = self.part.stat().st_size if self.part.exists() else 0
        # Compression on the way would make byte ranges meaningless.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if url.startswith("https:") and not response.url.startswith("https:"):
                raise requests.exceptions.ConnectionError("it redirects to an address that is not https")
            if response.status_code == 416:  # nothing lies behind what we have
                self.part.unlink()
                return self(url, output_file, _)
            response.raise_for_status()
            continued = response.status_code == 206 and _range_start(response.headers) == have
            if not continued:
                have = 0
            expected = have + int(response.headers.get("Content-Length") or 0)
            with self.part.open("ab" if continued else "wb") as file:
                for chunk in _shown(response.iter_content(1 << 18), self.part.stem, have, expected):
                    file.write(chunk)
                size = file.tell()
        if size < expected:
            raise requests.exceptions.ConnectionError(f"it broke off after {size} of {expected} bytes")
        shutil.move(self.part, output_file)
        return None


def _range_start(headers: Any) -> int:
    """The first byte of a partial answer: `Content-Range: bytes 100-199/200`."""
    start = str(headers.get("Content-Range", "")).removeprefix("bytes").strip().partition("-")[0]
    return int(start) if start.isdecimal() else -1


def _shown(chunks: Iterable[bytes], name: str, have: int, expected: int) -> Iterator[bytes]:
    """Pass the chunks through and show a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=expected or None, completed=have)
        for chunk in chunks:
            yield chunk
            progress.advance(bar, len(chunk))


def _short(error: Exception) -> str:
    """The innermost reason, without the layers of the network libraries."""
    text = str(error)
    for reason, words in (
        ("the name is not known: no network?", ("NameResolution", "getaddrinfo", "Name or service")),
        ("the connection timed out", ("timed out", "Timeout")),
        ("the connection was refused", ("refused",)),
        ("a proxy refused the connection", ("Proxy",)),
    ):
        if any(word in text for word in words):
            return reason
    return text.split("\n")[0][:120]
