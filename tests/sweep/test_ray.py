"""Sweeps on a real Ray cluster of two nodes on this machine; `make test-ray` runs them, they take a few minutes."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.sweep.engine import Engine

STREAM = "synthetic:tasks=3,classes=2,size=8,channels=1,train=10,test=6"
pytestmark = [  # Ray leaves sockets and files to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
needs_cluster = pytest.mark.skipif(not os.environ.get("GPLASC_TEST_RAY"), reason="run by `make test-ray`")


# ---- without a cluster ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "auto"}, "--address was given without a cluster"),
        ({"gpus": 1.0}, "--gpus was given without a cluster"),
        ({"name": "ray", "workers": 2}, "--workers was given with --engine ray"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        Engine(**options).check()


def test_an_experiment_that_measures_time_stays_on_this_machine():
    with pytest.raises(UserError, match="one run after the other"):
        Engine(name="ray").check(single=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"cpus": 0.0}, "--cpus was given as 0"), ({"gpus": 1.5}, "--gpus was given as 1.5")],
)
def test_impossible_requirements_are_refused_before_ray_is_asked(options, message):
    with pytest.raises(UserError, match=message):
        Engine(name="ray", **options).open("smoke")


# ---- with a cluster ------------------------------------------------------------------------------------------------


class Node:
    """A `ray start --block` in a session of its own, so that it can be killed with all its processes."""

    def __init__(self, *words: str, log: Path) -> None:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus", "1"]
        # The workers shall get the package from the driver, not from this environment.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
        }  # they would starve beside others
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [*command, "--object-store-memory", "100000000", "--disable-usage-stats", *words],
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
        end = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def cluster(tmp_path_factory):
    """The address of a cluster with two nodes of one core each, and the second node."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = tmp_path_factory.mktemp("ray")
    folder = Path("/tmp") / f"ray-{os.getpid()}-{port}"  # sockets need short paths
    address = f"127.0.0.1:{port}"
    nodes = []
    try:
        words = ["--head", "--port", str(port), "--node-ip-address", "127.0.0.1", "--temp-dir", str(folder)]
        nodes.append(Node(*words, "--include-dashboard", "false", log=logs / "head"))
        nodes.append(Node("--address", address, "--node-ip-address", "127.0.0.1", log=logs / "second"))
        yield address, nodes[1]
    finally:
        for node in reversed(nodes):
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def sweep(out: Path, method: Path, *, epochs: int = 25) -> list[str]:
    words = ["sweep", "--stream", STREAM, "--buffer", "9", "--scale", "smoke", "--threads", "1"]
    words += ["--set", f"train.epochs={epochs}", "--set", "model.encoder=small", "--set", "train.batch=8"]
    return [
        *words,
        "--grid",
        f"method=co2l,{method}",
        "--seeds",
        "0",
        "1",
        "--out",
        str(out),
        "--device",
        "cpu",
    ]


@pytest.fixture
def method(tmp_path):
    """A user's own method, in a folder that is no package."""
    path = tmp_path / "mine.py"
    path.write_text('from gplasc.methods.er import ER\n\n\nclass Mine(ER):\n    """Replay."""\n')
    return path


def table(out: Path) -> list[dict[str, str]]:
    (path,) = out.glob("sweep-*/table.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for row in rows:
        row.pop("seconds")
    return rows


def records(out: Path) -> dict[str, dict[str, object]]:
    found = {}
    for path in out.glob("*/record.json"):
        record = json.loads(path.read_text())
        found[path.parent.name] = {
            name: record[name] for name in ("matrix", "geometry", "weights_sha256", "memory_sha256")
        }
    return found


def run(words: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return int(caught.value.code)


def wait_for(condition, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def unfinished(out: Path) -> list[Path]:
    return [p.parent for p in out.glob("*/settings.json") if not (p.parent / "record.json").exists()]


@needs_cluster
def test_a_killed_node_loses_no_run_and_changes_no_number(cluster, method, tmp_path, capfd):
    address, second = cluster
    local, out = tmp_path / "local", tmp_path / "ray"
    assert run([*sweep(local, method), "--workers", "1"]) == 0
    capfd.readouterr()

    def kill_when_both_work() -> None:
        wait_for(lambda: len(unfinished(out)) >= 2)
        second.kill()

    killer = threading.Thread(target=kill_when_both_work)
    killer.start()
    assert run([*sweep(out, method), "--engine", "ray", "--address", address]) == 0
    killer.join()
    assert second.process.poll() is not None
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("[")]
    assert sorted(line.partition("/")[0] for line in lines) == [
        f"[{n}" for n in range(1, 5)
    ]  # each run ends once
    assert len(records(out)) == 4
    assert table(out) == table(local)
    assert records(out) == records(local)
    assert not list(out.glob(".ray-*"))


@needs_cluster
def test_ctrl_c_saves_and_a_killed_driver_is_continued(cluster, method, tmp_path):
    address, _ = cluster
    local, out = tmp_path / "local", tmp_path / "ray"
    words = [sys.executable, "-m", "gplasc.cli", *sweep(out, method), "--engine", "ray", "--address", address]
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        log = tmp_path / f"log-{number}"
        with log.open("w") as file:
            driver = subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True)
        if number == signal.SIGINT:
            wait_for(lambda: any((folder / "terms.jsonl").exists() for folder in unfinished(out)))
        else:
            wait_for(lambda: any("continuing" in path.read_text() for path in out.glob("*/log.txt")))
        driver.send_signal(number)
        assert driver.wait(60) == code, log.read_text()
        assert "Traceback" not in log.read_text()
        if number == signal.SIGINT:
            assert "interrupted and saved" in log.read_text()
            assert any(out.glob("*/checkpoint-*.pt"))
    assert run(words[3:]) == 0
    assert run([*sweep(local, method), "--workers", "1"]) == 0
    assert table(out) == table(local)
    assert records(out) == records(local)
    assert any("continuing" in path.read_text() for path in out.glob("*/log.txt"))


@needs_cluster
def test_results_come_back_where_no_folder_is_shared(cluster, method, tmp_path, monkeypatch):
    """The workers do not find the mark of a shared folder, so that they work in folders of their own."""
    from gplasc.sweep import ray_executor

    address, _ = cluster
    local, out = tmp_path / "local", tmp_path / "ray"
    real = ray_executor._Order
    monkeypatch.setattr(
        ray_executor, "_Order", lambda job, sources, mark, threads: real(job, sources, mark / "gone", threads)
    )
    method_elsewhere = method.rename(method.with_name("gone.py"))
    assert run([*sweep(out, method_elsewhere, epochs=3), "--engine", "ray", "--address", address]) == 0
    assert run([*sweep(local, method_elsewhere, epochs=3), "--workers", "1"]) == 0
    assert table(out) == table(local)
    assert records(out) == records(local)
    names = {path.name for path in next(out.glob("*/record.json")).parent.iterdir()}
    assert {"record.json", "weights.safetensors", "state.pt", "settings.json", "terms.jsonl"} <= names
