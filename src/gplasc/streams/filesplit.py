"""Splitting files without an official split: decided by each file's name alone, the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def split_names(names: Sequence[str], *, fraction: float, seed: int) -> tuple[list[str], list[str]]:
    """Split the file names of one class into (train, test), both in their given order.

    Names are ranked by a hash of seed and name and the first `fraction` goes to test, at least one where
    there are two: no random numbers whose algorithm may change, and another file hardly moves the others.

    >>> split_names(["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"], fraction=0.2, seed=0)
    (['a.jpg', 'b.jpg', 'd.jpg', 'e.jpg'], ['c.jpg'])
    """
    count = min(len(names) - 1, max(1, round(fraction * len(names))))
    ranked = sorted(
        names, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode("utf-8", "replace")).digest()
    )
    test = set(ranked[:count])
    return [name for name in names if name not in test], [name for name in names if name in test]
