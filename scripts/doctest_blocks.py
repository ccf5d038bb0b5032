"""Doctests on the site: lines that begin with >>> become a code block, with or without a heading "Examples:"."""

import re
from typing import Any

from griffe import Docstring, Extension, Object

_DOCTEST = re.compile(r"^>>>.*(?:\n+>>>.*|\n.+)*", re.MULTILINE)


def as_block(text: str) -> str:
    r"""Put each doctest of a docstring between fences.

    >>> print(as_block("Adds.\n\n>>> 1 + 1\n2"))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class DoctestBlocks(Extension):
    """Changes docstrings when they are collected."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Replace the doctests of one object's docstring."""
        docstring: Docstring | None = obj.docstring
        if docstring is not None:
            docstring.value = as_block(docstring.value)
