"""Two processes compute what one does: the same terms and gradients, and a run that survives the loss of one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.distributed import TCPStore

from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.learning.distributed import Processes, joined
from gplasc.learning.launch import _PATIENCE, _environment
from gplasc.runs.build import build_learner
from gplasc.streams import open_stream
from gplasc.streams.augment import StoredViews

METHODS = ("supcon", "co2l", "cila", "cclis", "er", "derpp", "icarl")
COMBINATIONS = [*METHODS, *(f"{method}+gplasc" for method in METHODS), "agem", "gem", "gss", "gcr"]
STREAM = "synthetic:tasks=3,classes=2,size=8,channels=1,train=10,test=20"


def compute_on_two(results: Path) -> dict:
    """What two processes and one found, see two_processes.py."""
    script = Path(__file__).with_name("two_processes.py")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(script), str(results)], env=_environment(rank, 2, store.port)
        )
        for rank in range(2)
    ]
    try:
        assert [process.wait(900) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return torch.load(results)


def largest_difference(one, two):
    assert one.keys() == two.keys()
    return max(float((one[name] - two[name]).abs().max()) for name in one)


def test_two_processes_compute_what_one_does(tmp_path):
    """Terms, gradients and statistics of every method; BatchNorm sees the rows of all processes."""
    computed = compute_on_two(tmp_path / "results.pt")
    for name in COMBINATIONS:
        one, two = computed[name]["one"], computed[name]["two"]
        assert any(value.abs().max() > 1e-2 for value in one["gradients"].values()), name
        for kind in ("terms", "gradients", "buffers"):
            assert largest_difference(one[kind], two[kind]) < 1e-5, (name, kind)
    terms = computed["er+gplasc"]["one"]["terms"]
    assert set(terms) == {"ce", "range", "position", "distill", "contrast"}
    assert all(term > 0 for name, term in terms.items() if name != "distill")  # 0 before the weights change
    one, two = computed["bfloat16"]["one"], computed["bfloat16"]["two"]
    assert largest_difference(one["terms"], two["terms"]) < 0.05
    assert largest_difference(one["gradients"], two["gradients"]) < 0.05
    for rows in (5, 1):  # of one row, the second process has none
        found = computed[f"batchnorm {rows}"]
        assert largest_difference(found["one"], found["two"]) < 1e-5, rows


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
def test_shares_are_a_partition(count):
    rows = [row for rank in range(3) for row in range(count)[Processes(rank, 3).share(count)]]
    assert rows == list(range(count))


@pytest.mark.parametrize("kind", ["contrastive", "replay", "plain", "stored"])
def test_the_shares_of_all_processes_are_the_views_of_one(kind, tiny):
    config, stream = tiny("er").config, open_stream(STREAM.replace("channels=1", "channels=3"))

    def views(rank, size):
        learner = build_learner(config, stream, processes=Processes(rank, size))
        learner.enter(stream[0])
        ctx = learner.ctx
        if kind == "stored":
            ctx._augmentations = {"stored": StoredViews(3)}
        part = ctx.part(ctx.pool.take(torch.arange(5)), views=2, augmentation=kind)
        return part.x, ctx.random["augment"].get_state()

    expected, after = views(0, 1)
    shares = []
    for rank in range(4):  # of 10 rows they have 3, 3, 3 and 1
        share, state = views(rank, 4)
        shares.append(share)
        assert torch.equal(state, after), "all random numbers must be drawn"
    torch.testing.assert_close(torch.cat(shares), expected)


def test_a_process_without_others_is_not_joined(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with joined("cpu") as (processes, device):
        assert (processes, device) == (Processes(), "cpu")


def test_a_number_of_devices_below_one_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", "--devices", "0"])
    assert caught.value.code == 2
    assert "--devices is 0; give 1 or more" in capsys.readouterr().err


def test_another_memory_is_an_error(monkeypatch):
    def gather(found, digest):
        found[:] = [digest, "other"]

    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    with pytest.raises(UserError, match="the memory of process 1 differs from that of process 0"):
        Processes(0, 2).check_equal("memory", "mine")


def command(out: Path, plugin: Path) -> list[str]:
    words = ["run", "--stream", STREAM, "--method", "co2l", "--plugin", "gplasc", "--plugin", str(plugin)]
    settings = ("train.epochs=8", "model.encoder=small", "model.features=signed", "train.batch=8")
    for setting in (*settings, "train.lr=0.05"):
        words += ["--set", setting]
    words += ["--buffer", "9", "--scale", "smoke", "--device", "cpu", "--save-steps", "3", "--quiet"]
    return [*words, "--out", str(out)]


def start(out: Path, plugin: Path) -> subprocess.Popen:
    words = [sys.executable, "-m", "gplasc", *command(out, plugin), "--devices", "2"]
    with out.with_suffix(".log").open("w") as log:
        return subprocess.Popen(words, stderr=log, stdout=subprocess.DEVNULL)


def messages(out: Path) -> str:
    return out.with_suffix(".log").read_text()


def wait_for_a_checkpoint(process: subprocess.Popen, out: Path) -> None:
    before = {path.name for path in out.glob("*/checkpoint-*.pt")}
    while not {path.name for path in out.glob("*/checkpoint-*.pt")} - before:
        assert process.poll() is None, messages(out)
        time.sleep(0.01)


def process_of(launcher: int, rank: int) -> int:
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}" in Path(f"/proc/{child}/environ").read_text().split("\0"):
            return int(child)
    raise AssertionError(f"there is no process {rank}")


def accuracy(out: Path) -> float:
    (path,) = out.glob("*/record.json")
    rows = json.loads(path.read_text())["matrix"]["class_il"]
    return sum(rows[-1]) / len(rows)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_a_run_on_two_processes_is_stopped_killed_and_resumed_by_two_and_by_one(tmp_path, write_slow_plugin):
    out, hold = tmp_path / "two", tmp_path / "hold"
    slow = write_slow_plugin(tmp_path / "slow.py", hold)
    hold.touch()
    process = start(out, slow)
    wait_for_a_checkpoint(process, out)
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 130, messages(out)
    assert "interrupted and saved" in messages(out)

    process = start(out, slow)
    wait_for_a_checkpoint(process, out)
    os.kill(process_of(process.pid, 1), signal.SIGKILL)
    assert process.wait(300) == 2  # _PATIENCE is the bound where the machine has time for the processes
    assert _PATIENCE < 60
    expected = "process 1 ended with SIGKILL; the run has stopped, and its last checkpoint is kept"
    assert expected in messages(out)
    assert not list(out.glob("*/record.json"))
    shutil.copytree(out, tmp_path / "one")
    hold.unlink()

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    torchrun += ["-m", "gplasc", *command(out, slow)]
    subprocess.run(torchrun, check=True, timeout=900, stdout=subprocess.DEVNULL)
    for folder in ("one", "whole"):
        with pytest.raises(SystemExit) as caught:
            main(command(tmp_path / folder, slow))
        assert caught.value.code == 0
    whole = accuracy(tmp_path / "whole")
    assert accuracy(out) == pytest.approx(whole, abs=15)
    assert accuracy(tmp_path / "one") == pytest.approx(whole, abs=15)
    (path,) = out.glob("*/record.json")
    assert json.loads(path.read_text())["processes"] == 2
    lines = next(out.glob("*/terms.jsonl")).read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == list(range(1, len(steps) + 1)), "one process writes the log, each step once"
