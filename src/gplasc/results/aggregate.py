"""From single runs to numbers with their spread: mean, std, number of seeds, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from gplasc.results.record import read_record


def load_records(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the records of all complete runs in (or below) the folders, each run once."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("record.json")):
            record = read_record(path.parent)
            if record is not None:
                found[record["run_id"]] = record
    return list(found.values())


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation (NaN for one value) and count."""

    mean: float
    std: float
    count: int

    def __str__(self) -> str:
        spread = f" ± {self.std:.2f}" if self.count > 1 else ""
        return f"{self.mean:.2f}{spread} (n={self.count})"


def spread(values: Sequence[float]) -> Spread:
    """Summarize values.

    >>> str(spread([1.0, 3.0])), str(spread([2.0]))
    ('2.00 ± 1.41 (n=2)', '2.00 (n=1)')
    """
    if not values:
        return Spread(math.nan, math.nan, 0)
    std = float(numpy.std(values, ddof=1)) if len(values) > 1 else math.nan
    return Spread(float(numpy.mean(values)), std, len(values))


@dataclass(frozen=True)
class Difference:
    """Mean paired difference with a bootstrap interval of 95 percent (NaN for fewer than two pairs)."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        interval = f" [{self.low:+.2f}, {self.high:+.2f}]" if self.count > 1 else ""
        return f"{self.mean:+.2f}{interval}"


def paired_difference(
    base: Mapping[Any, float], other: Mapping[Any, float], *, draws: int = 10_000, seed: int = 0
) -> Difference:
    """Compare values that share a key (the seed): ``other - base``, with a percentile bootstrap over the pairs.

    >>> str(paired_difference({0: 1.0, 1: 2.0}, {0: 2.0, 1: 3.0, 7: 9.0}))
    '+1.00 [+1.00, +1.00]'
    """
    keys = sorted(set(base) & set(other))
    if not keys:
        return Difference(math.nan, math.nan, math.nan, 0)
    gains = numpy.array([other[key] - base[key] for key in keys])
    if len(gains) == 1:
        return Difference(float(gains[0]), math.nan, math.nan, 1)
    picks = numpy.random.default_rng(seed).integers(len(gains), size=(draws, len(gains)))
    low, high = numpy.percentile(gains[picks].mean(1), [2.5, 97.5])
    return Difference(float(gains.mean()), float(low), float(high), len(gains))
