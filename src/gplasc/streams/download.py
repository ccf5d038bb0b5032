"""Downloading data sets from their publishers: checksum, progress bar, and resuming where it broke off."""

import re
import shutil
from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.streams.catalog import find_stream
from gplasc.streams.files import tracked
from gplasc.streams.info import Download
from gplasc.streams.locate import search_places

_TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte


def download(name: str, data_dir: Path | None = None) -> list[Path]:
    """Download the files of a data set into `data_dir`, or where data is looked for first, and return their paths.

    Files that are there with the right checksum are left alone.
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
    reason, target = "", folder / file.name
    for url in file.urls:
        try:
            pooch.retrieve(url, file.checksum, fname=file.name, path=folder, downloader=_Resuming(target))
            return target
        except requests.exceptions.RequestException as error:
            known = re.search(r"\[Errno -?\d+\] [^')\"]+|timed out|Proxy\w+", str(error))
            reason = known[0] if known else str(error)[:120]
        except ValueError as error:  # pooch: the checksum does not match; it has deleted the file
            raise UserError(
                f"what {url} sent is not {file.name} ({file.checksum} was expected); try again, "
                f"or put the file into {folder} yourself"
            ) from error
        except OSError as error:
            raise UserError(f"{target} cannot be written: {error.strerror or error}; make room") from error
    raise UserError(
        f"{file.urls[0]} cannot be reached ({reason}); run this again when you are online, "
        f"it resumes where it stopped, or put {file.name} into {folder} yourself"
    )


class _Resuming:
    """A downloader for pooch that keeps what it has in NAME.part and resumes from there the next time."""

    def __init__(self, target: Path) -> None:
        self.part = target.with_name(f"{target.name}.part")

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        """Download `url` to `output_file`; redirects to plain http are not followed to their content."""
        import requests

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
            part = str(response.headers.get("Content-Range")).startswith(f"bytes {have}-")
            continued = response.status_code == 206 and part
            have = have if continued else 0
            coming = int(response.headers.get("Content-Length") or 0)
            with self.part.open("ab" if continued else "wb") as file:
                chunks = response.iter_content(1 << 18)
                file.writelines(tracked(chunks, f"downloading {url}", -(-coming >> 18)))
                size, expected = file.tell(), have + coming
        if size < expected:
            raise requests.exceptions.ConnectionError(f"it broke off after {size} of {expected} bytes")
        shutil.move(self.part, output_file)
