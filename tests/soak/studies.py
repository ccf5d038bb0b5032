"""``compare``, ``sweep``, ``tune``, ``features`` and ``demo``, killed at random moments: each continues."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.soak.cuts import SAME

from gplasc._io.display import Display
from gplasc.cli import main

_STREAM = "synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4"
_TINY = ["--stream", _STREAM, "--scale", "smoke", "--device", "cpu", "--quiet"]
_ALONE = [*_TINY, "--set", "model.encoder=small", "--set", "train.batch=4", "--threads", "1"]
_RUNS = [*_ALONE, "--workers", "2"]
_TUNE = ["--space", "train.lr=0.01,0.1,0.2", "--trials", "5", "--set", "data.validation=0.3", "--buffer", "4"]
STUDIES: dict[str, list[str]] = {
    "compare": ["compare", *_RUNS, "--methods", "finetune", "er", "--buffers", "4", "--seeds", "0", "1"],
    "sweep": ["sweep", *_RUNS, "--method", "er", "--buffer", "4", "--seeds", "0", "1", "2", "3"],
    # With two workers the next trial depends on which one ends first.
    "tune": ["tune", *_ALONE, "--workers", "1", "--method", "er", *_TUNE],
    "features": ["features", *_TINY, "--encoder", "small", "--views", "3"],
    "demo": ["demo"],
}
"""The words of each command without the folder that it writes to."""
_LIMIT = 900.0


def _work(words: list[str], out: Path, notes: Path) -> None:
    """Run a command in this process; what it prints goes into a file."""
    with notes.open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    if words == ["demo"]:  # at its own scale it takes minutes
        from gplasc.study import demo

        demo._SETTINGS = {"model.features": "signed"}  # type: ignore[assignment]
        raise SystemExit(demo.run_demo(out, scale="smoke", display=Display()))
    main([*words, "--out", str(out)])


def _found(out: Path) -> dict[str, str]:
    """Return digests of what must be equal: values of the records, features, tables."""
    found = {}
    for path in sorted(out.rglob("*")):
        if path.name == "record.json":
            record = json.loads(path.read_text())
            content = repr([record[name] for name in SAME]).encode()
        elif path.name == "table.csv":  # of a sweep, with the seconds of its runs
            continue
        elif path.suffix in (".csv", ".md", ".tex", ".safetensors") or path.name == "features.json":
            content = path.read_bytes()
        else:
            continue
        found[str(path.relative_to(out))] = hashlib.sha256(content).hexdigest()
    return found


def cut_study(
    context: Any, name: str, folder: Path, random: Random, kills: int
) -> Iterator[tuple[bool, str]]:
    """Kill a command so many times at random moments, going on each time; compare what it wrote in the end.

    Yields:
        Whether it was killed before its end, and what went wrong, if anything.
    """
    folder.mkdir(parents=True)
    notes = folder / "notes.txt"

    def run(out: str, seconds: float = _LIMIT) -> int:
        process = context.Process(target=_work, args=(STUDIES[name], folder / out, notes))
        process.start()
        process.join(seconds)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        return int(process.exitcode)

    start = time.monotonic()
    assert run("whole") == 0, notes.read_text()
    seconds, whole, done = time.monotonic() - start, _found(folder / "whole"), 0
    while done < kills:
        code = run("cut", random.random() * seconds)
        if code == -signal.SIGKILL:
            done += 1
            yield True, ""
            continue
        yield False, _different(code, notes, folder, whole)
    yield False, _different(run("cut"), notes, folder, whole)


def _different(code: int, notes: Path, folder: Path, whole: dict[str, str]) -> str:
    """Say what differs after the command came to its end, and delete what it wrote."""
    found = _found(folder / "cut")
    names = sorted(path for path in {*found, *whole} if found.get(path) != whole.get(path))
    shutil.rmtree(folder / "cut", ignore_errors=True)
    return f"exit code {code}: {', '.join(names)}: {notes.read_text()[-1000:]}" if code or names else ""
