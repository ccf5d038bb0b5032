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
from dataclasses import dataclass
from pathlib import Path

import pytest

from gplasc._io.display import Lines
from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.study.executors import Engine
from gplasc.study.ray import RayExecutor

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
        ({"storage": "s3://bucket"}, "--storage was given without a cluster"),
        ({"address": "auto"}, "--address was given without a cluster"),
        ({"gpus": 1.0}, "--gpus was given without a cluster"),
        ({"engine": "ray", "workers": 2}, "--workers was given with --engine ray"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        Engine(**options).processes("smoke")


def test_an_experiment_that_measures_time_stays_on_this_machine():
    with pytest.raises(UserError, match="one run after the other"):
        Engine(engine="ray").processes("smoke", single=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"cpus": 0.0}, "--cpus was given as 0"), ({"gpus": 1.5}, "--gpus was given as 1.5")],
)
def test_impossible_requirements_are_refused_before_ray_is_asked(options, message):
    with pytest.raises(UserError, match=message):
        Engine(engine="ray", **options).open("smoke")


# ---- with a cluster ------------------------------------------------------------------------------------------------


class Node:
    """A `ray start --block` in a session of its own, so that it can be killed with all its processes.

    It has one core, one GPU that exists in name only, and a folder for temporary files that no other node uses.
    """

    def __init__(self, *words: str, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        log = folder / "log"
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus", "1"]
        # The workers shall get the package from the driver, not from this environment.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "TMPDIR": str(folder)}
        environment |= {"RAY_worker_niceness": "0"}  # they would starve beside others
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [*command, "--num-gpus", "1", "--object-store-memory", "100000000", *words],
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
        end = time.monotonic() + 300
        while "Ray runtime started" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)

    def find(self, pattern: str) -> list[Path]:
        """Return files in what the workers of this node write."""
        return list(self.folder.glob(f"gplasc-*/{pattern}"))

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Cluster:
    """Two nodes of one core each."""

    address: str
    nodes: list[Node]

    @property
    def engine(self) -> list[str]:
        return ["--engine", "ray", "--address", self.address, "--gpus", "0.5"]


@pytest.fixture
def cluster(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = tmp_path_factory.mktemp("ray")
    folder = Path("/tmp") / f"ray-{os.getpid()}-{port}"  # sockets need short paths
    found = Cluster(f"127.0.0.1:{port}", [])
    try:
        words = ["--head", "--port", str(port), "--node-ip-address", "127.0.0.1", "--temp-dir", str(folder)]
        found.nodes.append(Node(*words, "--include-dashboard", "false", folder=logs / "head"))
        words = ["--address", found.address, "--node-ip-address", "127.0.0.1"]
        found.nodes.append(Node(*words, folder=logs / "second"))
        yield found
    finally:
        for node in reversed(found.nodes):
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)


METHOD = '''
from gplasc.methods.er import ER


class Mine(ER):
    """Replay."""
'''


class User:
    """A user's own files, in a folder that is no package, and the sweep that needs them."""

    def __init__(self, folder: Path, write_slow_plugin) -> None:
        self.hold = folder / "hold"
        self.method = folder / "mine.py"
        self.method.write_text(METHOD)
        self.plugin = write_slow_plugin(folder / "slow.py", self.hold)

    def sweep(self, out: Path, *more: str) -> list[str]:
        words = ["sweep", "--stream", STREAM, "--buffer", "9", "--scale", "smoke", "--threads", "1"]
        for setting in ("train.epochs=20", "model.encoder=small", "train.batch=8"):
            words += ["--set", setting]
        words += ["--plugin", str(self.plugin), "--grid", f"method=co2l,{self.method}", "--seeds", "0", "1"]
        return [*words, "--out", str(out), "--device", "cpu", *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("user")


@pytest.fixture
def user(folder, write_slow_plugin):
    found = User(folder, write_slow_plugin)
    yield found
    found.hold.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def local(folder, write_slow_plugin):
    """The same sweep by a process of this machine."""
    assert run(User(folder, write_slow_plugin).sweep(folder / "local", "--workers", "1")) == 0
    return folder / "local"


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


def steps(out: Path) -> dict[str, list[int]]:
    return {
        path.parent.name: [json.loads(line)["step"] for line in path.read_text().splitlines()]
        for path in out.glob("*/terms.jsonl")
    }


def check_equal(out: Path, local: Path, messages: str) -> None:
    """Every run is there, was announced once, has the numbers of the local engine and a log without gaps."""
    lines = [line for line in messages.splitlines() if line.startswith("[") and "waiting" not in line]
    assert sorted(line.partition("/")[0] for line in lines) == [f"[{n}" for n in range(1, 5)], messages
    assert len(records(out)) == 4
    assert table(out) == table(local)
    assert records(out) == records(local)
    assert steps(out) == steps(local)
    assert not list(out.glob(".ray-*"))
    assert not list(out.glob("*/checkpoint-*.pt"))


def run(words: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return int(caught.value.code)


def wait_for(condition, process: subprocess.Popen | None = None) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        assert process is None or process.poll() is None
        time.sleep(0.05)


def texts(paths) -> str:
    return "".join(path.read_text() for path in paths)


@needs_cluster
@pytest.mark.parametrize("shared", [True, False], ids=["shared folder", "storage"])
def test_a_killed_node_loses_no_run_and_changes_no_number(
    shared, cluster, user, local, tmp_path, capfd, monkeypatch
):
    out, storage = tmp_path / "runs", tmp_path / "storage"
    kept = out if shared else storage
    shown = set()  # the runs whose progress was shown
    real = Lines.show
    monkeypatch.setattr(
        Lines, "show", lambda self, moment, cell: shown.add(cell.run_id) or real(self, moment, cell)
    )

    def kill_when_both_have_a_checkpoint() -> None:
        wait_for(lambda: len({path.parent for path in kept.glob("*/checkpoint-*.pt")}) == len(shown) == 2)
        user.method.unlink()  # what starts from now on has the copies that were sent
        user.plugin.unlink()
        cluster.nodes[1].kill()
        user.hold.unlink()

    user.hold.touch()
    capfd.readouterr()
    killer = threading.Thread(target=kill_when_both_have_a_checkpoint)
    killer.start()
    more = [] if shared else ["--storage", storage.as_uri()]
    assert run(user.sweep(out, *cluster.engine, *more)) == 0
    killer.join()
    assert cluster.nodes[1].process.poll() is not None
    check_equal(out, local, capfd.readouterr().err)
    assert "continuing" in texts(out.glob("*/log.txt"))
    sent = [{path.name for path in node.find("sources/*/*")} for node in cluster.nodes]
    assert sent[0] == {"mine.py", "slow.py"}
    assert "slow.py" in sent[1]
    assert [bool(node.find("runs")) for node in cluster.nodes] == [not shared] * 2
    assert shared or not list(storage.iterdir()), "what was kept of complete runs is deleted"


@needs_cluster
@pytest.mark.parametrize("shared", [True, False], ids=["shared folder", "storage"])
def test_ctrl_c_saves_and_a_killed_driver_is_continued(shared, cluster, user, local, tmp_path, capfd):
    out, storage = tmp_path / "runs", tmp_path / "storage"
    kept = out if shared else storage
    words = user.sweep(out, *cluster.engine, *([] if shared else ["--storage", storage.as_uri()]))

    def continued() -> bool:
        found = (
            out.glob("*/log.txt") if shared else [p for n in cluster.nodes for p in n.find("runs/*/log.txt")]
        )
        return "continuing" in texts(found)

    def saved() -> set[str]:
        return {path.name for path in kept.glob("*/checkpoint-*.pt")}

    user.hold.touch()
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        log = tmp_path / f"log-{number}"
        with log.open("w") as file:
            driver = subprocess.Popen(
                [sys.executable, "-m", "gplasc", *words], stdout=file, stderr=file, start_new_session=True
            )
        wait_for(saved if number == signal.SIGINT else continued, driver)
        before = saved()
        driver.send_signal(number)
        assert driver.wait(300) == code, log.read_text()
        assert "Traceback" not in log.read_text()
        if number == signal.SIGINT:
            assert "interrupted and saved" in log.read_text()
            assert saved() - before, "the runs were saved when they were cancelled"
        assert not list(out.glob("*/record.json"))
    user.hold.unlink()
    capfd.readouterr()
    assert run(words) == 0
    messages = capfd.readouterr().err
    for mark in out.glob(".ray-*"):  # of the driver that was killed
        mark.unlink()
    check_equal(out, local, messages)


@needs_cluster
def test_results_come_back_where_no_folder_is_shared(cluster, user, local, tmp_path, monkeypatch, capfd):
    """The workers do not find the mark of a shared folder, so that they work in folders of their own."""
    monkeypatch.setattr(RayExecutor, "_mark", lambda self, out: out / "gone")
    capfd.readouterr()
    assert run(user.sweep(tmp_path, *cluster.engine)) == 0
    check_equal(tmp_path, local, capfd.readouterr().err)
    names = {path.name for path in next(tmp_path.glob("*/record.json")).parent.iterdir()}
    assert {"record.json", "weights.safetensors", "state.pt", "settings.json", "terms.jsonl"} <= names
    assert not any(node.find("runs/*/*") for node in cluster.nodes), "nothing is left on the nodes"
