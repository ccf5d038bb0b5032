"""Start-up: the help, a smoke run outside its training steps, and every experiment at smoke scale."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.speed.figure import Figure

_CORES = 2
_ROOT = str(Path(__file__).resolve().parents[2])


def measure_startup(quick: bool) -> list[Figure]:
    """Measure the processor time of new processes."""
    repeats = 1 if quick else 3
    with tempfile.TemporaryDirectory() as name:
        shown = min(_processor_seconds(["-m", "gplasc", "--help"], name) for _ in range(repeats))
        outside = min(_outside_training(Path(name) / str(number)) for number in range(repeats))
    return [
        Figure("startup", "gplasc --help", shown, 0.3, unit="s"),
        Figure("startup", "gplasc run --scale smoke, outside training steps", outside, 3.0, unit="s"),
    ]


def measure_smoke(quick: bool) -> list[Figure]:
    """Measure every experiment at smoke scale: processor time of all its processes, divided by two cores."""
    from gplasc.paper import is_grid, list_experiments

    names = ["ablation-range-loss"] if quick else [name for name in list_experiments() if is_grid(name)]
    figures = []
    for name in names:
        with tempfile.TemporaryDirectory() as out:
            words = f"-m gplasc reproduce {name} --scale smoke --out {out} --quiet --workers 2".split()
            if quick:
                words += ["--methods", "co2l", "--only", "hinge"]
            spent = _processor_seconds(words, out) / _CORES
        figures.append(Figure("smoke", f"reproduce {name}, on two cores", spent, 60.0, unit="s"))
    return figures


def _processor_seconds(words: list[str], folder: str) -> float:
    """Return the processor time of a command and of all processes that it started."""
    _adopt_orphans()
    path = os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {said.decode()[-500:]}")
    spent = usage.ru_utime + usage.ru_stime
    while True:  # the server that forks the processes of runs ends after the command
        try:
            _, _, usage = os.wait4(-process.pid, 0)  # any process of its group
        except ChildProcessError:
            return spent
        spent += usage.ru_utime + usage.ru_stime


def _adopt_orphans() -> None:
    """Become the parent of processes whose parent ends, so that their time can be read. Linux only."""
    if sys.platform == "linux":
        subreaper = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
        ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)


def _outside_training(out: Path) -> float:
    """Return the processor time of a smoke run, the start of the process included, minus that of its training."""
    out.mkdir()
    result = out / "training.txt"
    # The modules of the command line are imported too, as `gplasc run` does.
    code = f"import gplasc.cli, benchmarks.speed.startup as b; b.smoke_run({str(out)!r}, {str(result)!r})"
    whole = _processor_seconds(["-c", code], str(out))
    return whole - float(result.read_text())


def smoke_run(out: str, result: str) -> None:
    """Run co2l+gplasc at smoke scale and write the processor time of its training to a file."""
    from benchmarks.speed.resident import PhaseClock

    from gplasc.runs.execute import run

    clock = PhaseClock()
    settings: dict[str, Any] = {"model.features": "signed"}
    run("seq-digits", "co2l", "gplasc", scale="smoke", out=out, quiet=True, callbacks=[clock], **settings)
    Path(result).write_text(repr(sum(clock.training)))
