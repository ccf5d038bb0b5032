"""Checkpoints of runs in a storage that all nodes reach: anything with an fsspec address, such as an S3 bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.learning.checkpoints import CHECKPOINTS
from gplasc.runs.workspace import TERMS


class Storage:
    """At an fsspec address a folder for each run with what it needs to continue: checkpoints and the log of terms.

    Files that are cut off while they are written do no harm: checkpoints have a checksum, and the one before is kept.
    """

    def __init__(self, address: str) -> None:
        import fsspec

        try:
            self._files: Any
            self._files, self._root = fsspec.core.url_to_fs(address)
        except (ValueError, ImportError, OSError) as error:
            raise UserError(f"--storage {address} cannot be used: {error}") from None
        self._address = address

    def check(self) -> None:
        """Write, read and delete a file, to refuse a storage where that fails."""
        path = f"{self._root}/.gplasc"
        try:
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(path, b"gplasc")
            content = self._files.cat_file(path)
            self._files.rm_file(path)
        except Exception as error:  # each kind of storage has errors of its own
            raise UserError(f"--storage {self._address} cannot be written: {_reason(error)}") from None
        if content != b"gplasc":
            raise UserError(f"--storage {self._address} does not return what was written to it")

    def fetch(self, folder: Path) -> None:
        """Copy into the folder of a run what was kept of it, unless the folder is further."""
        try:
            kept = self._kept(folder.name)
            here = {path.name for path in folder.glob(CHECKPOINTS)}
            if max(here, default="") >= max(kept.keys() - {TERMS}, default=""):
                return
            folder.mkdir(parents=True, exist_ok=True)
            for name, path in kept.items():
                self._files.get_file(path, str(folder / name))
        except Exception as error:
            raise UserError(
                f"the checkpoints of the run {folder.name} cannot be read from {self._address}: {_reason(error)}"
            ) from None

    def keep(self, checkpoint: Path) -> None:
        """Copy a new checkpoint of a run, and its log, to the storage; delete what its folder has no more.

        A storage that cannot be reached does not stop the run; what failed is printed.
        """
        folder = checkpoint.parent
        there = f"{self._root}/{folder.name}"
        try:
            self._files.makedirs(there, exist_ok=True)
            for path in (folder / TERMS, checkpoint):
                if path.exists():
                    self._files.put_file(str(path), f"{there}/{path.name}")
            for name, kept in self._kept(folder.name).items():
                if not (folder / name).exists():
                    self._files.rm_file(kept)
        except Exception as error:
            print(f"the checkpoint was not copied to {self._address}: {_reason(error)}", flush=True)

    def delete(self, run_id: str) -> None:
        """Delete what was kept of a run; a storage that cannot be reached keeps it."""
        try:
            self._files.rm(f"{self._root}/{run_id}", recursive=True)
        except Exception as error:
            if not isinstance(error, FileNotFoundError):
                print(f"{self._address}/{run_id} was not deleted: {_reason(error)}", flush=True)

    def _kept(self, run_id: str) -> dict[str, str]:
        """Return the paths of the files of a run by name."""
        there = f"{self._root}/{run_id}"
        self._files.invalidate_cache()  # other nodes write to the same place
        paths = self._files.ls(there, detail=False) if self._files.isdir(there) else []
        return {path.rpartition("/")[2]: path for path in sorted(paths)}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
