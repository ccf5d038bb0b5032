"""Runs that are cut off: real processes of the real command, killed or refused by the disk at a chosen moment.

A child process counts the calls of the functions below. At the chosen call it kills itself with SIGKILL, or the call
fails with the chosen error, a write after half of its content.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from gplasc.cli import main
from gplasc.methods import find_method
from gplasc.settings.components import list_methods

# A method without training has no steps between which it could be killed.
METHODS = [name for name in list_methods() if find_method(name).trains]
SAME = ("weights_sha256", "predictor_sha256", "memory_sha256", "matrix", "geometry", "steps")
_STREAM = "synthetic:tasks=3,classes=2,size=8,channels=1,train=6,test=4"

PLACES: dict[str, tuple[str, str]] = {
    "write": ("pathlib:Path", "write_bytes"),
    "fsync": ("os", "fsync"),
    "rename": ("pathlib:Path", "replace"),
    "log": ("gplasc.learning.callbacks.terms:TermLog", "on_log"),
    "step": ("gplasc.learning.learner:Learner", "step"),
    "probe": ("gplasc.learning.learner:Learner", "_on_progress"),
    "predictor": ("gplasc.learning.learner:Learner", "_finish"),
    "evaluation": ("gplasc.learning.evaluator:Evaluator", "evaluate"),
    "last files": ("gplasc.runs.execute", "_save"),
    "record": ("gplasc.runs.execute", "write_record"),
    "tidying": ("gplasc.learning.checkpoints", "delete_all"),
}
"""Where a run can be cut: the module and class of a function, and its name."""
DISK = ("write", "fsync", "rename", "log")
"""Those that fail when a disk is full or broken."""


@dataclass(frozen=True)
class Cut:
    """The ``number``-th call of ``place``, counted from 1, before or after it is carried out.

    ``error`` is the number of an OSError; 0 kills the process.
    """

    place: str
    number: int
    after: bool = False
    error: int = 0


END = Cut("end", 0)


def processes() -> Any:
    """Return a context whose processes start with everything imported."""
    context = multiprocessing.get_context("forkserver")
    components = [f"gplasc.methods.{name.replace('-', '_')}" for name in METHODS]
    preloaded = ["gplasc.cli", "gplasc.runs.execute", "gplasc.classifier.learning", "gplasc.plugins.gplasc"]
    preloaded += ["gplasc.streams.sources.synthetic", "sklearn.linear_model"]
    context.set_forkserver_preload([*preloaded, *components])
    return context


def command(method: str, plugin: str, out: Path, *, epochs: int = 2) -> list[str]:
    """Return the words of a run that takes about a second and writes a checkpoint every other step."""
    words = f"run --stream {_STREAM} --method {method} --buffer 7 --scale smoke --threads 1".split()
    settings = [f"train.epochs={epochs}", "model.encoder=small", "train.batch=6", "train.lr=0.05"]
    if plugin:  # the range term of GPLASC is zero on features that are never negative
        settings.append("model.features=signed")
    for setting in settings:
        words += ["--set", setting]
    words += ["--save-steps", "2", "--out", str(out), "--device", "cpu", "--quiet", "--json"]
    return words + (["--plugin", plugin] if plugin else [])


def child(
    words: list[str], cut: Cut | None, notes: Path, places: dict[str, tuple[str, str]] = PLACES
) -> None:
    """Run the command in this process; write the numbers of calls, and what it prints, beside ``notes``."""
    with notes.with_suffix(".txt").open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    calls: Counter[str] = Counter()
    for place, where in places.items():
        _watch(place, where, calls, cut)
    try:
        main(words)
    finally:
        notes.write_text(json.dumps(calls))


def _watch(place: str, where: tuple[str, str], calls: Counter[str], cut: Cut | None) -> None:
    owner_name, name = where
    module, _, kind = owner_name.partition(":")
    owner = sys.modules[module] if not kind else getattr(sys.modules[module], kind)
    original: Callable[..., Any] = getattr(owner, name)

    def watched(*arguments: Any, **more: Any) -> Any:
        calls[place] += 1
        if cut is None or (cut.place, cut.number) != (place, calls[place]):
            return original(*arguments, **more)
        if cut.after:
            original(*arguments, **more)
        elif place == "write":
            original(arguments[0], arguments[1][: len(arguments[1]) // 2])
        elif place == "log":
            with arguments[0]._path.open("ab") as file:
                file.write(b'{"step": 1')
        if cut.error == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if place == "log":  # the callback opens the file itself
            arguments[0]._path = _Full(arguments[0]._path, cut.error)
            return original(*arguments, **more)
        raise OSError(cut.error, os.strerror(cut.error))

    setattr(owner, name, watched)


class _Full:
    """The path of a file that cannot be opened for writing."""

    def __init__(self, path: Path, error: int) -> None:
        self._path, self._error = path, error

    def __str__(self) -> str:
        return str(self._path)

    def open(self, *_: Any) -> Any:
        raise OSError(self._error, os.strerror(self._error))


@dataclass
class Runner:
    """Runs of one method, with or without a plug-in, in a folder of their own."""

    context: Any
    method: str
    plugin: str
    folder: Path

    def start(self, out: str, cut: Cut | None = None) -> Any:
        """Start a process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = command(self.method, self.plugin, self.folder / out)
        process = self.context.Process(target=child, args=(words, cut, self.folder / "notes.json"))
        process.start()
        return process

    def finish(self, out: str, cut: Cut | None = None) -> int:
        """Run a process to its end, or to its cut, and return its exit code."""
        (self.folder / "notes.json").unlink(missing_ok=True)
        process = self.start(out, cut)
        process.join(3600)
        assert process.exitcode is not None, "a run hangs"
        return int(process.exitcode)

    @property
    def calls(self) -> dict[str, int]:
        """How often the last run to its end called each place."""
        found: dict[str, int] = json.loads((self.folder / "notes.json").read_text())
        return found

    @property
    def printed(self) -> str:
        """What the last run printed."""
        return (self.folder / "notes.txt").read_text()

    def result(self, out: str) -> dict[str, Any]:
        """Return everything that must be equal: values of the record, the log of the terms, the names of the files."""
        (record,) = (self.folder / out).glob("*/record.json")
        values = json.loads(record.read_text())
        found = {name: values[name] for name in SAME}
        found["terms"] = (record.parent / "terms.jsonl").read_text()
        return found | {"files": sorted(path.name for path in record.parent.iterdir())}

    def differences(self, out: str, whole: dict[str, Any]) -> str:
        """Name what differs from the whole run; an empty text if nothing does."""
        found = self.result(out)
        return ", ".join(name for name in whole if found[name] != whole[name])

    def forget(self, out: str) -> None:
        """Delete a run."""
        shutil.rmtree(self.folder / out, ignore_errors=True)


def draw_cut(random: Random, calls: dict[str, int], *, fault: bool) -> Cut:
    """Draw a moment: a place that the whole run passes, and one of its calls."""
    place = random.choice([name for name in (DISK if fault else PLACES) if calls.get(name)])
    error = random.choice((errno.ENOSPC, errno.EIO)) if fault else 0
    after = place not in ("log", "write") and not fault and random.random() < 0.5
    return Cut(place, random.randint(1, calls[place]), after, error)


def cut_off(runner: Runner, random: Random, cuts: int, *, fault: bool) -> Iterator[tuple[Cut, str]]:
    """Cut a run off so many times, going on each time, and yield each cut and what went wrong with it, if anything.

    A kill is right if the process died by it, a fault if the command ended with one sentence or got over it. Whenever a
    run comes to its end, it must equal the whole one; then the next begins.
    """
    assert runner.finish("whole") == 0, runner.printed
    calls, whole = runner.calls, runner.result("whole")
    done, before = 0, []
    while done < cuts:
        cut = draw_cut(random, calls, fault=fault)
        before.append(cut)
        code = runner.finish("cut", cut)
        if code == 0:  # fewer calls were left, or the fault did no harm
            wrong = runner.differences("cut", whole)
            runner.forget("cut")
            if wrong:
                yield cut, f"{wrong} after {before}"
            before.clear()
            continue
        done += 1
        lines = [line for line in runner.printed.splitlines() if not line.startswith("gplasc: note: ")]
        said = code == 2 and len(lines) == 1 and os.strerror(cut.error) in lines[0]
        right = said if fault else code == -signal.SIGKILL
        yield cut, "" if right else f"exit code {code}: {runner.printed[-1000:]}"
    code = runner.finish("cut")
    wrong = f"exit code {code}: {runner.printed[-1000:]}" if code else runner.differences("cut", whole)
    runner.forget("cut")
    yield END, f"{wrong} after {before}" if wrong else ""
