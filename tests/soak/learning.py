"""``gplasc learn`` that is killed: the last state stays usable, and the same command continues, bit for bit."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.soak.cuts import PLACES, Cut, child

from gplasc.classifier._state import read_state, read_tensors
from gplasc.learning.checkpoints import digest

LEARN_PLACES = {name: PLACES[name] for name in ("write", "fsync", "rename", "step", "predictor")} | {
    "unlink": ("os", "unlink")
}
"""Where learning can be cut, as `PLACES`; files of the interrupted task are deleted by os.unlink."""


def learned(state: Path) -> dict[str, str]:
    """Return digests of everything that decides what a classifier does next; times are left out."""
    index = read_state(state)
    tensors = read_tensors(state, index.files["learned"])
    if index.kind == "frozen":
        return {"head": digest(tensors), **{name: name for name in [*index.rows, index.files["results"]]}}
    learner = tensors["learner"]
    parts = {
        "modules": learner["modules"],
        "predictor": learner["predictor"],
        "memory": learner["memory"]["columns"],
        "random": learner["random"],
    }
    digests = {name: digest(tensors) for name, tensors in parts.items()}
    return digests | {name: name for name in index.rows}  # with the images that are held out


@dataclass
class LearnRunner:
    """Processes that learn the first or second of two image folders, in a state folder of a given name."""

    context: Any
    folder: Path
    months: tuple[Path, Path]
    options: list[str]
    seconds: float = 0.0
    """How long the last complete learning took."""

    def run(self, words: list[str], cut: Cut | float | None = None) -> int:
        """Run a command to its end, to its cut, or for so many seconds; return its exit code."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = cut if isinstance(cut, Cut) else None
        process = self.context.Process(
            target=child, args=(words, place, self.folder / "notes.json", LEARN_PLACES)
        )
        process.start()
        process.join(cut if isinstance(cut, float) else 1200)
        if process.is_alive() and isinstance(cut, float):
            os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        assert process.exitcode is not None, "a process hangs"
        return int(process.exitcode)

    def learn(self, state: str, month: int, cut: Cut | float | None = None) -> int:
        """Learn one of the folders."""
        start = time.monotonic()
        words = ["learn", str(self.folder / state), str(self.months[month]), *self.options, "--quiet"]
        code = self.run(words, cut)
        if cut is None:
            self.seconds = time.monotonic() - start
        return code

    def copy(self, state: str, new: str) -> None:
        """Replace a state by a copy of another one."""
        shutil.rmtree(self.folder / new, ignore_errors=True)
        shutil.copytree(self.folder / state, self.folder / new)

    def seen(self, state: str) -> tuple[dict[str, str], str]:
        """Return what was learned, and what `gplasc predict` prints for one image of each month."""
        images = [str(next(month.rglob("*.*g"))) for month in self.months]
        code = self.run(["predict", str(self.folder / state), *images, "--json", "--top", "3"])
        return learned(self.folder / state), f"{code}: {self.printed}"

    @property
    def printed(self) -> str:
        """What the last process printed."""
        return (self.folder / "notes.txt").read_text()


def cut_learning(runner: LearnRunner, cuts: Iterable[Cut | float]) -> Iterator[tuple[bool, str]]:
    """Kill the learning of the second month at each moment, going on each time.

    After each moment the state must be that before the second month or that after it. In the latter case the next
    attempt begins again after the first month.

    Args:
        runner: The processes.
        cuts: Calls of a place, or seconds after the start.

    Yields:
        Whether the process was killed before its end, and what went wrong; at the end (False, what differs).
    """
    assert runner.learn("first", 0) == 0, runner.printed
    runner.copy("first", "whole")
    assert runner.learn("whole", 1) == 0, runner.printed
    before, after = runner.seen("first"), runner.seen("whole")
    assert before[0] != after[0]
    runner.copy("first", "cut")
    for cut in cuts:
        code = runner.learn("cut", 1, cut)
        printed, found = runner.printed, runner.seen("cut")
        allowed = (before, after) if code == -signal.SIGKILL else (after,)
        right = code in (0, -signal.SIGKILL) and found in allowed
        if found == after:
            runner.copy("first", "cut")
        yield code == -signal.SIGKILL, "" if right else f"{cut}: exit code {code}: {printed}: {found[1]}"
    code = runner.learn("cut", 1)
    printed, found = runner.printed, runner.seen("cut")
    names = {path.name.partition("-")[0] for path in (runner.folder / "cut").iterdir()}
    right = code == 0 and found == after and names <= {"state.json", "data", "previous", "lock"}
    yield False, "" if right else f"at the end: exit code {code}: {printed}: {sorted(names)}"


def write_months(folder: Path) -> tuple[Path, Path]:
    """Write two folders of two classes each, ten small images a class: bright blocks and noise."""
    draw = np.random.default_rng(0)
    for label in range(4):
        place = folder / f"month{label // 2}" / f"class {label}"
        place.mkdir(parents=True)
        for number in range(10):
            image = draw.integers(0, 60, (16, 16, 3))
            image[4 * label : 4 * label + 4] += 180
            Image.fromarray(image.astype(np.uint8)).save(place / f"{number}.png")
    return folder / "month0", folder / "month1"
