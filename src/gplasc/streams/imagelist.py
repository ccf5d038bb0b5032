"""Image files with labels, train before test: what the readers of image folders have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gplasc.streams.cache import Decoded
from gplasc.streams.dataset import Split


@dataclass(frozen=True)
class ImageList:
    """files: all files; labels: (N,) int64; the first `train` of them are the training split."""

    files: tuple[str, ...]
    labels: Tensor
    train: int

    @classmethod
    def of(cls, train: Sequence[tuple[str, int]], test: Sequence[tuple[str, int]]) -> ImageList:
        """Join pairs of file and label. Sorted by label, tasks can be mapped without a copy."""
        pairs = [*train, *test]
        labels = torch.tensor([label for _, label in pairs], dtype=torch.int64)
        return cls(tuple(file for file, _ in pairs), labels, len(train))


def splits_of(images: ImageList, decoded: Decoded) -> tuple[Split, Split]:
    """Return the training and the test split of what could be decoded."""
    labels = images.labels[decoded.kept]
    border = int((decoded.kept < images.train).sum())
    total = len(decoded.kept)
    return (
        Split(decoded.images.part(0, border), labels[:border]),
        Split(decoded.images.part(border, total), labels[border:]),
    )
