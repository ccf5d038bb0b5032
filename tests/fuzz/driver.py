"""Runs cases in forked processes, with a limit on time and memory, and sorts what came of each."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import torch._dynamo  # noqa: F401  # the first optimizer imports it, which takes seconds in every forked process
from tests.fuzz.formats import FORMATS
from tests.fuzz.hostile import RAN

from gplasc.errors import UserError

OUTCOMES = (
    "clear", "accepted and equal", "accepted and different", "traceback", "hang", "over memory", "file outside",
    "code run",
)  # fmt: skip
"""The first two are always right, the third where a format has no checksum, the others never."""

_BATCH = 40
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Limits:
    """What one case may take: seconds of the processor, ten times as many by the clock, bytes of resident memory.

    A case that waits for something that never comes takes no time of the processor; a busy machine makes every case
    slow by the clock.
    """

    seconds: float = 60.0
    bytes: int = 2 * 10**9


@dataclass(frozen=True)
class Outcome:
    """What came of one case, and its largest resident memory in bytes."""

    format: str
    number: int
    what: str
    done: str
    detail: str = ""
    memory: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        """Whether this must not happen."""
        if self.what == "accepted and different":
            return FORMATS[self.format].checksum
        return self.what not in ("clear", "accepted and equal")


def draw(count: int, names: Sequence[str], seed: int) -> list[tuple[str, int]]:
    """Return which case of which format to try: each format by its weight, each case once."""
    weights = [FORMATS[name].weight for name in names]
    drawn = Random(seed).choices(names, weights, k=max(count - len(names), 0))
    counted: Counter[str] = Counter([*names, *drawn][:count])
    return [(name, number) for name in names for number in range(counted[name])]


def run_cases(
    cases: Iterable[tuple[str, int]], root: Path, *, seed: int, limits: Limits
) -> Iterator[Outcome]:
    """Yield the outcome of every case."""
    pending = list(cases)
    for folder in ("outside", "cases", "intact"):
        (root / folder).mkdir(parents=True)
    intact: dict[str, str] = {}
    while pending:
        here, there = _fork.Pipe(duplex=False)
        process = _fork.Process(target=_work, args=(pending[:_BATCH], root, seed, intact, there))
        process.start()
        there.close()
        done = 0
        while done < min(_BATCH, len(pending)):
            name, number = pending[done]
            found = _receive(here, process.pid or 0, limits)
            if isinstance(found, str):
                process.kill()
                if found == "traceback":
                    process.join()
                    found, detail = "traceback", f"the process died with {process.exitcode}"
                else:
                    detail = f"limit {limits}"
                process.join()
                shutil.rmtree(
                    root / "cases" / str(number), ignore_errors=True
                )  # as the next has the same name
                yield Outcome(name, number, found, "", detail)
                done += 1
                break
            outcome, digest = found
            intact.setdefault(name, digest)
            if outcome.memory > limits.bytes:
                outcome = Outcome(name, number, "over memory", outcome.done, f"{outcome.memory:,} bytes")
            yield outcome
            done += 1
        process.join()
        here.close()
        del pending[:done]


def _receive(here: Connection, pid: int, limits: Limits) -> tuple[Outcome, str] | str:
    end = time.monotonic() + 10 * limits.seconds
    before, _ = _usage(pid)
    while not here.poll(0.02):
        seconds, resident = _usage(pid)
        if time.monotonic() > end or seconds - before > limits.seconds:
            return "hang"
        if resident > limits.bytes:
            return "over memory"
    try:
        found: tuple[Outcome, str] = here.recv()
    except EOFError:
        return "traceback"
    return found


def _usage(pid: int) -> tuple[float, int]:
    """Return the processor's seconds and the resident bytes of a process; zeros when it has ended."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        return (int(times[11]) + int(times[12])) / _TICKS, resident
    except (OSError, IndexError, ValueError):
        return 0.0, 0


def _work(
    cases: Sequence[tuple[str, int]], root: Path, seed: int, intact: dict[str, str], there: Connection
) -> None:
    """Work on cases one after the other; what they print goes nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    known = dict(intact)
    for name, number in cases:
        if name not in known:
            known[name] = _intact(name, root)
        there.send((_one(name, number, root, seed, known[name]), known[name]))
    there.close()


def _intact(name: str, root: Path) -> str:
    """Make the intact input of a format and return what is understood of it."""
    source = root / "intact" / name.replace(" ", "-")
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    _enter(source)
    FORMATS[name].make(source)
    place = root / "cases" / "intact"
    shutil.copytree(source, place, symlinks=True)
    _enter(place)
    try:
        return FORMATS[name].use(place)
    finally:
        shutil.rmtree(place)


def _enter(place: Path) -> None:
    os.environ["GPLASC_CACHE"] = str(place / "cache")
    os.environ.pop("GPLASC_DATA", None)
    os.chdir(place)


def _one(name: str, number: int, root: Path, seed: int, expected: str) -> Outcome:
    place, outside = root / "cases" / str(number), root / "outside"
    shutil.copytree(root / "intact" / name.replace(" ", "-"), place, symlinks=True)
    _enter(place)
    done = FORMATS[name].spoil(place, Random(f"{seed}/{name}/{number}"), outside)
    before = _files(root)
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
        file.write("5")  # start a new measurement of the peak
    start = time.monotonic()
    try:
        what = "accepted and equal" if FORMATS[name].use(place) == expected else "accepted and different"
        detail = ""
    except UserError as error:
        what, detail = "clear", str(error)
        if not detail.strip() or "\n" in detail.strip() or len(detail) > 6000:
            what = "traceback"  # a message, but not a sentence
    except BaseException:
        what, detail = "traceback", traceback.format_exc()
    seconds = time.monotonic() - start
    after = _files(root)
    if (outside / RAN).exists():
        what = "code run"
    elif after != before:
        what, detail = "file outside", f"{after - before}"
    for path in outside.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.chdir(root)
    shutil.rmtree(place, ignore_errors=True)
    return Outcome(name, number, what, done, detail, _peak(), seconds)


def _files(root: Path) -> set[Path]:
    return {path for folder in (root, root / "cases", root / "outside") for path in folder.iterdir()}


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the numbers of each format as text."""
    columns = ("tried", *OUTCOMES)
    names = list(dict.fromkeys(outcome.format for outcome in outcomes))
    width = max(map(len, (*names, "format")))
    lines = [f"{'format':{width}}  " + "  ".join(columns)]
    for name in (*names, "all"):
        own = [outcome for outcome in outcomes if name in (outcome.format, "all")]
        counted = Counter(outcome.what for outcome in own)
        numbers = (len(own), *(counted[what] for what in OUTCOMES))
        aligned = (f"{n:>{len(column)}}" for n, column in zip(numbers, columns, strict=True))
        lines.append(f"{name:{width}}  " + "  ".join(aligned))
    without = ", ".join(name for name in names if not FORMATS[name].checksum)
    peak = max(outcome.memory for outcome in outcomes)
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    lines.append(f"no checksum, so damage may be accepted: {without}")
    lines.append(
        f"largest memory {peak / 1e6:,.0f} MB, longest case {slowest.seconds:.1f} s ({slowest.format} {slowest.number})"
    )
    return "\n".join(lines)


def describe(outcome: Outcome, seed: int) -> str:
    """Return a case that went wrong in words, with the command that repeats it."""
    again = f"python -m tests.fuzz --formats '{outcome.format}' --case {outcome.number} --seed {seed}"
    return f"{outcome.what}: {outcome.format} {outcome.number} ({outcome.done})\n{outcome.detail}\n  again: {again}\n"
