"""How a format is described and read: what its tests share."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.streams import fingerprint, open_stream

STREAM = "synthetic:tasks=2,classes=2,size=8,channels=1,train=4,test=2"


class UnexpectedError(Exception):
    """A command ended with neither 0 nor 2, or with 2 and without a sentence."""


@dataclass(frozen=True)
class Format:
    """One kind of input.

    ``make`` writes an intact input into a folder, ``spoil`` damages it there (its third argument is a folder that
    nothing may be written to) and says how, and ``use`` reads it and returns a digest of what was understood.
    ``checksum``: damage must be noticed. ``weight``: how often it is drawn, less for what is slow.
    """

    make: Callable[[Path], object]
    spoil: Callable[[Path, Random, Path], str]
    use: Callable[[Path], str]
    checksum: bool = False
    weight: int = 4


def digest(*values: Any) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).hexdigest()


def command(words: list[str]) -> tuple[int, str, str]:
    """Run a command and return its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    code = code if isinstance(code, int) else 0
    if code not in (0, 2) or (code == 2 and not err.getvalue().strip()) or "Traceback" in err.getvalue():
        raise UnexpectedError(f"exit code {code}: {err.getvalue()[-2000:]}")
    return code, out.getvalue(), err.getvalue()


def sentence(code: int, err: str) -> None:
    """Raise what a command that was refused said, without its notes."""
    if code == 2:
        lines = [line for line in err.splitlines() if not line.startswith(("gplasc: note: ", "skipped: "))]
        raise UserError("\n".join(lines))


def stream(name: str, **settings: Any) -> Callable[[Path], str]:
    """Return a function that opens a stream; HERE in its name is the folder of the case."""

    def use(place: Path) -> str:
        given = name.replace("HERE", str(place))
        found = open_stream(given, data_dir=None if ":" in given else place, **settings)
        return digest(fingerprint(found), found.class_names, found.classes_per_task)

    return use
