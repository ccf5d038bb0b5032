"""Images in a file, seen as a tensor: mapped, with a bound on the pages that stay resident."""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, ClassVar, cast
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from gplasc.errors import UserError

# Pages read through a mapping count as memory of the process until they are given back (the system's file cache
# keeps them, so reading them again is cheap). This bounds all mappings together.
RESIDENT_BYTES = 256 * 2**20
GATHERED_BYTES = 64 * 2**20  # of rows that are copied into memory; more are copied into a file without a name
_PIECE = 256  # rows that are copied at once


class Mapping:
    """A mapped part of a file; all of them share one count of what was read since pages were last given back."""

    _alive: ClassVar[WeakSet[Mapping]] = WeakSet()
    _bytes: ClassVar[int] = 0

    def __init__(self, pages: mmap.mmap) -> None:
        self._pages = pages
        Mapping._alive.add(self)

    def touched(self, count: int) -> None:
        """Note that `count` bytes were read; give all pages back when they may have become many."""
        Mapping._bytes += count
        if Mapping._bytes > RESIDENT_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            Mapping._bytes = 0
            for mapping in list(Mapping._alive):  # what was written into the pages is lost
                mapping._pages.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class MappedImages:
    """uint8 images of one shape, (N, C, H, W), one after the other in a file."""

    path: Path
    shape: tuple[int, int, int, int]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def image_bytes(self) -> int:
        """Bytes of one image."""
        return prod(self.shape[1:])

    def read(self, rows: slice | Tensor) -> tuple[Tensor, Mapping | None]:
        """Map consecutive rows without reading them, or copy rows (K,) int64 in this order: (K, C, H, W).

        The mapping is private: writing into the tensor never changes the file. Copies are in memory or, when they
        are many, in a file without a name that vanishes with the tensor.
        """
        try:
            with self.path.open("rb") as file:
                images, mapping = _map(file, self.shape)
            if isinstance(rows, slice):
                return images[rows], mapping
            pieces = (self._gather(images, mapping, part) for part in rows.split(_PIECE))
            if len(rows) * self.image_bytes <= GATHERED_BYTES:
                return torch.cat(list(pieces)), None
            with tempfile.TemporaryFile(dir=self.path.parent) as file:
                file.writelines(piece.numpy().data for piece in pieces)
                file.flush()
                return _map(file, (len(rows), *self.shape[1:]))
        except (OSError, ValueError) as error:
            raise UserError(
                f"images of {self.path} cannot be read ({error}); make room on its disk, or delete it, "
                "it will be made again"
            ) from error

    def _gather(self, images: Tensor, mapping: Mapping, rows: Tensor) -> Tensor:
        mapping.touched(len(rows) * self.image_bytes)
        return images[rows]


def _map(file: IO[bytes], shape: tuple[int, ...]) -> tuple[Tensor, Mapping]:
    images = np.memmap(file, np.uint8, "c", 0, shape)
    return torch.from_numpy(images), Mapping(cast(mmap.mmap, images.base))
