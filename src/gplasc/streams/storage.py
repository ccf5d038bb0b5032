"""Images in a file, seen as a tensor: mapped, with a bound on the pages that stay resident."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from gplasc.errors import UserError

# Pages read through a mapping count as memory of the process until they are given back; they stay in the
# system's file cache, so reading them again is cheap.
RESIDENT_BYTES = 128 * 2**20


class Mapping:
    """A mapped part of a file, and how much of it has been read since its pages were last given back."""

    def __init__(self, pages: mmap.mmap) -> None:
        self._pages = pages
        self._bytes = 0

    def touched(self, count: int) -> None:
        """Note that `count` bytes were read; give the pages back when they may have become many."""
        self._bytes += count
        if self._bytes > RESIDENT_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)
            self._bytes = 0


@dataclass(frozen=True)
class MappedImages:
    """uint8 images of one shape, one after the other in a file from byte `offset` on. Shape: (N, C, H, W)."""

    path: Path
    offset: int
    shape: tuple[int, int, int, int]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def image_bytes(self) -> int:
        """Bytes of one image."""
        return prod(self.shape[1:])

    def part(self, start: int, stop: int) -> MappedImages:
        """Return the images `start` to `stop` as images of their own."""
        return MappedImages(
            self.path, self.offset + start * self.image_bytes, (stop - start, *self.shape[1:])
        )

    def map(self, rows: slice) -> tuple[Tensor, Mapping | None]:
        """Map consecutive rows, without reading them.

        The mapping is private: writing into the tensor never changes the file.
        """
        start, stop, _ = rows.indices(len(self))
        count = max(0, stop - start)
        if count == 0:
            return torch.empty((0, *self.shape[1:]), dtype=torch.uint8), None
        first = self.offset + start * self.image_bytes
        page = first - first % mmap.ALLOCATIONGRANULARITY
        length = first - page + count * self.image_bytes
        try:
            with self.path.open("rb") as file:
                pages = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY, offset=page)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.path} cannot be mapped ({error}); delete it, it will be made again"
            ) from error
        x = torch.frombuffer(pages, dtype=torch.uint8, count=count * self.image_bytes, offset=first - page)
        return x.view(count, *self.shape[1:]), Mapping(pages)

    def gather(self, rows: Tensor) -> Tensor:
        """Copy rows, (K,) int64, into memory: (K, C, H, W). Reads the file, so no pages stay mapped."""
        gathered = torch.empty((len(rows), *self.shape[1:]), dtype=torch.uint8)
        target = gathered.numpy().reshape(-1).data
        size = self.image_bytes
        try:
            with self.path.open("rb") as file:
                for number, row in enumerate(rows.tolist()):
                    file.seek(self.offset + row * size)
                    if file.readinto(target[number * size : (number + 1) * size]) != size:
                        raise EOFError("it is shorter than it was")
        except (OSError, EOFError) as error:
            raise UserError(
                f"{self.path} cannot be read ({error}); delete it, it will be made again"
            ) from error
        return gathered
