"""Numbers as words and texts, the same all over the report."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from gplasc._io.table import Marked
from gplasc.report.charts import Series
from gplasc.results.statistics import Difference, Spread

SEEDS = 5
"""With fewer pairs of seeds no gain or loss is marked: the interval rests on too few differences."""


def show_spread(value: Spread, digits: int = 2) -> str:
    """Mean and standard deviation; a dash when no run has the number.

    >>> show_spread(Spread(1.0, 0.5, 3)), show_spread(Spread(2.0, math.nan, 1))
    ('1.00 ± 0.50', '2.00')
    >>> show_spread(Spread(math.nan, math.nan, 0))
    '–'
    """
    if not math.isfinite(value.mean):
        return "–"
    std = f" ± {value.std:.{digits}f}" if math.isfinite(value.std) else ""
    return f"{value.mean:.{digits}f}".replace("-", "−") + std


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(1.0), signed(-0.5)
    ('+1.00', '−0.50')
    """
    return f"{value:+.2f}".replace("-", "−")


def show_difference(value: Difference) -> str:
    """Mean paired difference and its interval.

    >>> show_difference(Difference(1.0, -0.5, 2.0, 3))
    '+1.00 [−0.50, +2.00]'
    """
    if not value.count:
        return "–"
    interval = f" [{signed(value.low)}, {signed(value.high)}]" if math.isfinite(value.low) else ""
    return signed(value.mean) + interval


def mark_difference(value: Difference | None, *, more_is_better: bool = True) -> Marked:
    """A difference as a cell; a gain or a loss is marked when the interval of at least five pairs does not include 0.

    >>> [mark_difference(Difference(1.0, 0.5, 1.5, n)).mark for n in (0, 4, 5)]
    ['muted', '', 'better']
    """
    if value is None or not value.count:
        return Marked("–", "muted")
    text = show_difference(value)
    if value.count < SEEDS or not math.isfinite(value.low) or value.low <= 0 <= value.high:
        return Marked(text)
    return Marked(text, "better" if (value.low > 0) == more_is_better else "worse")


def known(value: float) -> float | None:
    """The value, or None for NaN and infinity, which no figure can draw."""
    return value if math.isfinite(value) else None


def say_ends(lines: Sequence[Series]) -> str:
    """The last value of every line in words."""
    return say_values([(line.name, line.y[-1]) for line in lines if line.y])


def say_values(named: Iterable[tuple[str, float | None]]) -> str:
    """Named values in words; of more than four the highest and the lowest.

    >>> say_values([("er", 1.0), ("gem", -2.0), ("der", None)])
    'er 1; gem −2'
    """
    pairs = [(value, name) for name, value in named if value is not None]
    if len(pairs) <= 4:
        return "; ".join(f"{name} {_short(value)}" for value, name in pairs)
    high, low = max(pairs), min(pairs)
    return f"highest {high[1]} with {_short(high[0])}, lowest {low[1]} with {_short(low[0])}, of {len(pairs)}"


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def cut_words(text: str, length: int = 700) -> str:
    """Cut a long list between two entries."""
    if len(text) <= length:
        return text
    return text[: max(text.rfind(";", 0, length), 0)] + "; and more in the numbers below."


def scale_note(scale: str) -> str:
    """What a scale's numbers are worth."""
    return {
        "smoke": "Measured at smoke scale: a few steps on a few small images, to show that everything runs. "
        "The numbers say nothing about the methods.",
        "cpu": "Measured at cpu scale: the same code with a smaller model, fewer epochs or fewer images than the "
        "published protocol. Not a reproduction of published numbers.",
    }.get(scale, "")


def file_name(text: str, length: int = 40) -> str:
    """A text as part of a file name or of a link; a long one is cut and ends in a hash of the whole.

    >>> file_name("co2l+gplasc, margin 0.1"), file_name("a" * 50, 12)
    ('co2l-gplasc-margin-0-1', 'aaaaaaa-160b')
    """
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    name = "-".join(part for part in kept.split("-") if part)
    if len(name) <= length:
        return name
    return f"{name[: length - 5]}-{hashlib.sha256(name.encode()).hexdigest()[:4]}"
