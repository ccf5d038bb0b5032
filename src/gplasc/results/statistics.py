"""Mean and spread of numbers by seed, differences with their interval, and the correction for several tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

ENOUGH_SEEDS = 3
"""Fewest seeds of a number that is marked as the best, and of a gain that is a headline."""
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
    """Mean difference with an interval of 95 percent and the p-value of no difference (NaN where there are none)."""

    mean: float
    low: float
    high: float
    count: int
    p: float = math.nan

    @classmethod
    def of(cls, base: Mapping[Any, float], other: Mapping[Any, float]) -> Difference:
        """Compare values that share a key (the seed); the mean is that of ``other - base``.

        The interval is that of Student's t: mean ± t(0.975, n - 1) · std / √n of the differences.

        >>> str(Difference.of({0: 60.0, 1: 61.0, 2: 62.0}, {0: 64.6, 1: 65.4, 2: 65.4, 7: 9.0}))
        '+4.13 [+2.54, +5.73] (n=3)'
        """
        gains = spread([other[key] - base[key] for key in sorted(set(base) & set(other))])
        return cls._student(gains.mean, gains.std, gains.count, gains.count - 1, gains.count)

    @classmethod
    def welch(cls, base: Mapping[Any, float], other: Mapping[Any, float]) -> Difference:
        """Compare values that are not paired; the standard deviations may differ (Welch's interval).

        >>> str(Difference.welch({0: 60.0, 1: 61.0, 2: 62.0}, {0: 64.6, 1: 65.4, 2: 65.4}))
        '+4.13 [+2.03, +6.23] (n=3)'
        """
        one, two = spread(list(base.values())), spread(list(other.values()))
        shares = [one.std**2 / max(one.count, 1), two.std**2 / max(two.count, 1)]
        weights = sum(v**2 / (s.count - 1) for v, s in zip(shares, (one, two), strict=True) if s.count > 1)
        count = min(one.count, two.count)
        freedom = sum(shares) ** 2 / weights if weights else count - 1
        return cls._student(two.mean - one.mean, math.sqrt(sum(shares)), 1, freedom, count)

    @classmethod
    def _student(cls, mean: float, std: float, size: int, freedom: float, count: int) -> Difference:
        """Return the interval of Student's t for the mean of so many values with this standard deviation."""
        if count < 2:
            return cls(mean, math.nan, math.nan, count)
        from scipy.special import stdtr, stdtrit

        half = float(stdtrit(freedom, 0.975)) * std / math.sqrt(size)
        p = 2 * float(stdtr(freedom, -abs(mean) / std * math.sqrt(size))) if std else float(mean == 0)
        return cls(mean, mean - half, mean + half, count, p)

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


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method; a missing one (NaN) counts as 1.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = [1.0 if math.isnan(p) else p for p in p_values]
    corrected, largest = [1.0] * len(known), 0.0
    for rank, place in enumerate(sorted(range(len(known)), key=known.__getitem__)):
        largest = corrected[place] = max(largest, min(1.0, (len(known) - rank) * known[place]))
    return corrected
