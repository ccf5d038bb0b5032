"""A run killed at any moment and started again ends as if nothing had happened, bit for bit.

The processes are real, they run the real command, and they are killed with SIGKILL.
"""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from gplasc.cli import main
from gplasc.components import list_methods
from gplasc.methods import find_method

# A method without training has no steps between which it could be killed.
METHODS = [name for name in list_methods() if find_method(name).trains]
STREAM = "synthetic:tasks=3,classes=2,size=8,channels=1,train=10,test=6"
KILLS = 5
SAME = ("weights_sha256", "memory_sha256", "matrix", "geometry", "steps")


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "gplasc.cli",
            "gplasc.running",
            *(f"gplasc.methods.{name}" for name in METHODS),
            "gplasc.plugins.gplasc",
            "gplasc.streams.synthetic",
        ]
    )
    return context


def command(method: str, plugin: str, out: Path) -> list[str]:
    words = [
        "run",
        "--stream",
        STREAM,
        "--method",
        method,
        "--buffer",
        "9",
        "--scale",
        "smoke",
        "--threads",
        "1",
    ]
    words += [
        "--set",
        "train.epochs=16",
        "--set",
        "model.encoder=small",
        "--set",
        "train.batch=8",
        "--set",
        "train.lr=0.05",
        "--save-steps",
        "3",
    ]
    words += ["--out", str(out), "--quiet", "--json"]
    return words + (["--plugin", plugin] if plugin else [])


def start(context, words: list[str]):
    process = context.Process(target=main, args=(words,))
    process.start()
    return process


def finished(context, words: list[str], out: Path) -> dict:
    process = start(context, words)
    process.join(120)
    assert process.exitcode == 0
    return record_in(out)


def newest(out: Path) -> str:
    return max((path.name for path in out.glob("*/checkpoint-*.pt")), default="")


def record_in(out: Path) -> dict:
    (path,) = out.glob("*/record.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("plugin", ["", "gplasc"])
@pytest.mark.parametrize("method", METHODS)
def test_killed_and_resumed_equals_uninterrupted(method, plugin, processes, tmp_path):
    whole = finished(processes, command(method, plugin, tmp_path / "whole"), tmp_path / "whole")
    out = tmp_path / "killed"
    words = command(method, plugin, out)
    for kill in range(KILLS):
        before = newest(out)
        process = start(processes, words)
        # Wait for a new checkpoint, so that every attempt gets on; then kill at ever other distances from it.
        while newest(out) == before and process.is_alive():
            time.sleep(0.001)
        process.join(0.02 * kill)
        assert process.is_alive(), "the run was too short to be killed so often"
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
    finished(processes, words, out)
    resumed = record_in(out)
    assert {name: resumed[name] for name in SAME} == {name: whole[name] for name in SAME}
    logs = [next(folder.glob("*/terms.jsonl")).read_bytes() for folder in (tmp_path / "whole", out)]
    assert logs[0] == logs[1], "the log of the terms differs"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_first(number, processes, tmp_path):
    words = [*command("co2l", "gplasc", tmp_path), "--set", "train.epochs=500"]
    words[words.index("--save-steps") + 1] = "100000"
    process = start(processes, words)
    while not list(tmp_path.glob("*/terms.jsonl")):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode == 130
    assert list(tmp_path.glob("*/checkpoint-*.pt"))


def test_a_second_process_is_refused(processes, tmp_path, capsys):
    words = [*command("co2l", "", tmp_path), "--set", "train.epochs=2000"]
    process = start(processes, words)
    while not list(tmp_path.glob("*/terms.jsonl")):
        assert process.is_alive()
        time.sleep(0.01)
    with pytest.raises(SystemExit) as caught:
        main(words)
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    assert caught.value.code == 2
    assert "another process is working on the run" in capsys.readouterr().err
