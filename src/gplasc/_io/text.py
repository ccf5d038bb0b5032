"""Texts for people: escaped, in HTML, durations, and hints after a wrong name."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable

_SPACES = "\u00a0\u2009\u202f"


def printable(text: str, *, lines: bool = True) -> str:
    r"""Return the text with control codes, and bytes of names that are not UTF-8, as visible escapes.

    In a text that must not have several lines their ends, and unusual spaces, are escaped as well.

    >>> printable("caf\udce9 \x1b[1m")
    'caf\\xe9 \\x1b[1m'
    """
    if text.isprintable():
        return text
    kept = f"\n{_SPACES}" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else ascii(character)[1:-1]


def html_text(text: str) -> str:
    """Return the text for an HTML element or attribute."""
    return html.escape(printable(text))


def duration(seconds: float) -> str:
    """Write a duration for people.

    >>> duration(75), duration(7300), duration(2.5 * 86400)
    ('1:15', '2:01:40', '2 days 12 hours')
    """
    whole = max(round(seconds), 0)
    if whole >= 48 * 3600:
        return f"{whole // 86400:,} days {whole % 86400 // 3600} hours"
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Name the allowed word that was probably meant, or all of them, as the end of a sentence.

    >>> did_you_mean("co3l", ["er", "co2l"]), did_you_mean("x", ["er", "co2l"])
    ("did you mean 'co2l'?", 'allowed: co2l, er')
    """
    allowed = sorted(allowed)
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"allowed: {', '.join(allowed)}"
