"""Numbers as words and texts, the same all over the report."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from typing import Any

from gplasc._io.table import Mark, Marked
from gplasc.results.statistics import Difference, Spread


def show_value(value: Any) -> str:
    """A setting as people read it.

    >>> show_value(None), show_value([60, 75]), show_value(0.1), show_value(True)
    ('none', '60, 75', '0.1', 'true')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(show_value, value)) or "none"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(1.0), signed(-0.5)
    ('+1.00', '−0.50')
    """
    return f"{value:+.2f}".replace("-", "−")


def show_spread(value: Spread) -> str:
    """Mean and standard deviation; a dash when no run has the number.

    >>> show_spread(Spread(1.0, 0.5, 3)), show_spread(Spread(2.0, math.nan, 1))
    ('1.00 ± 0.50', '2.00')
    >>> show_spread(Spread(math.nan, math.nan, 0))
    '–'
    """
    return value.text().replace("-", "−") if math.isfinite(value.mean) else "–"


def show_difference(value: Difference | None, *, more_is_better: bool = True) -> Marked:
    """A mean paired difference with its interval, marked as a gain or a loss if it is certain.

    >>> show_difference(Difference(1.0, 0.5, 1.5, 5))
    Marked(value='+1.00 [+0.50, +1.50]', mark='better')
    >>> [show_difference(Difference(1.0, 0.5, 1.5, n)).mark for n in (0, 4)]
    ['muted', '']
    """
    if value is None or not value.count:
        return Marked("–", "muted")
    marks: tuple[Mark, Mark, Mark] = ("", "better", "worse")  # the last is also number -1
    mark = marks[value.verdict if more_is_better else -value.verdict]
    return Marked(value.text().replace("-", "−"), mark)


def say_values(named: Iterable[tuple[str, float | None]]) -> str:
    """Named values in words; of more than four the highest and the lowest.

    >>> say_values([("er", 1.0), ("gem", -2.0), ("der", None)])
    'er 1; gem −2'
    """
    pairs = [(value, name) for name, value in named if value is not None and math.isfinite(value)]
    if len(pairs) <= 4:
        return "; ".join(f"{name} {_short(value)}" for value, name in pairs)
    high, low = max(pairs), min(pairs)
    return f"highest {high[1]} with {_short(high[0])}, lowest {low[1]} with {_short(low[0])}, of {len(pairs)}"


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def file_name(text: str, length: int = 40) -> str:
    """A text as part of a file name or of a link; a long one is cut and ends in a hash of the whole.

    >>> file_name("co2l+gplasc, margin 0.1"), file_name("a" * 50, 12)
    ('co2l-gplasc-margin-0-1', 'aaaaaaa-160b')
    """
    name = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(name) <= length:
        return name
    return f"{name[: length - 5]}-{hashlib.sha256(name.encode()).hexdigest()[:4]}"
