"""Mean and spread of numbers by seed, and paired differences with their interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

ENOUGH_PAIRS = 5
"""Fewest pairs for which a difference is called better or worse."""


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation (NaN for one value) and count."""

    mean: float
    std: float
    count: int

    @property
    def low(self) -> float:
        """One standard deviation below the mean."""
        return self.mean - self.std

    @property
    def high(self) -> float:
        """One standard deviation above the mean."""
        return self.mean + self.std

    def text(self, digits: int = 2) -> str:
        """Return mean and standard deviation with this many decimals."""
        spread = f" ± {self.std:.{digits}f}" if self.count > 1 else ""
        return f"{self.mean:.{digits}f}{spread}"

    def __str__(self) -> str:
        return f"{self.text()} (n={self.count})"


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
    """Mean paired difference with Student's interval of 95 percent (NaN for fewer than two pairs)."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, base: Mapping[Any, float], other: Mapping[Any, float]) -> Difference:
        """Compare values that share a key (the seed); the mean is that of ``other - base``.

        The interval is that of Student's t: mean ± t(0.975, n - 1) · std / √n of the differences.

        >>> str(Difference.of({0: 60.0, 1: 61.0, 2: 62.0}, {0: 64.6, 1: 65.4, 2: 65.4, 7: 9.0}))
        '+4.13 [+2.54, +5.73] (n=3)'
        """
        gains = spread([other[key] - base[key] for key in sorted(set(base) & set(other))])
        if gains.count < 2:
            return cls(gains.mean, math.nan, math.nan, gains.count)
        from scipy.special import stdtrit

        half = float(stdtrit(gains.count - 1, 0.975)) * gains.std / math.sqrt(gains.count)
        return cls(gains.mean, gains.mean - half, gains.mean + half, gains.count)

    @property
    def verdict(self) -> int:
        """1 or -1 if the interval excludes zero and there are at least five pairs, else 0."""
        if self.count < ENOUGH_PAIRS:
            return 0
        return (self.low > 0) - (self.high < 0)

    def text(self, digits: int = 2) -> str:
        """Return mean and interval with this many decimals."""
        low, high = (f"{end:+.{digits}f}" for end in (self.low, self.high))
        return f"{self.mean:+.{digits}f}" + (f" [{low}, {high}]" if self.count > 1 else "")

    def __str__(self) -> str:
        return f"{self.text()} (n={self.count})"
