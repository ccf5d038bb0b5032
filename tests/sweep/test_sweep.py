"""Sweeps with real processes: complete runs skipped, failures isolated, cut-off runs continued, Ctrl-C obeyed."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gplasc._io.display import Display, Lines, Live, Moment
from gplasc.cli import main
from gplasc.errors import Interrupted, UserError
from gplasc.runs.execute import execute
from gplasc.runs.spec import RunRequest
from gplasc.runs.workspace import RunFolder, Workspace
from gplasc.study.cell import Cell, Outcome, check_seeds
from gplasc.study.compute import _unique, compute
from gplasc.study.executors import Engine
from gplasc.study.points import parse_axes
from gplasc.study.processes import Processes
from gplasc.study.study import Study
from gplasc.study.sweep import _grid_cells, _summary

STREAM = "synthetic:tasks=3,classes=2,size=8,channels=1,train=10,test=6"


def cell(spec, row: str = "row") -> Cell:
    return Cell({"row": row, "stream": "tiny"}, spec.identified())


def place(out: Path) -> Workspace:
    return Workspace(out, device="cpu", save_every=1e9)


class Counting(Processes):
    """Processes that remember what they were asked for."""

    def __init__(self) -> None:
        super().__init__(workers=2, threads=1)
        self.asked: list[str] = []

    def submit(self, cell, workspace, listener):
        self.asked.append(cell.run_id)
        return super().submit(cell, workspace, listener)


def test_a_failing_and_a_crashing_cell_do_not_stop_the_others(tiny, tmp_path):
    killer = tmp_path / "killer.py"  # a method whose process ends in the middle of a run
    killer.write_text(
        "import os, signal\nfrom gplasc.methods.finetune import Finetune\n\n\n"
        "class Killer(Finetune):\n"
        "    def loss(self, parts, ctx):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from gplasc.methods.finetune import Finetune\n\n\n"
        "class Broken(Finetune):\n    def loss(self, parts, ctx):\n        return {'ce': 1 / 0}\n"
    )
    out = tmp_path / "runs"
    cells = [
        cell(tiny("finetune", **{"train.lr": 1e30}), "explodes"),
        cell(tiny(str(killer)), "killed"),
        cell(tiny(str(broken)), "broken"),
        cell(tiny("finetune"), "sound"),
    ]
    stream = io.StringIO()
    outcomes = compute(cells, place(out), Processes(2, 1), Lines(stream))
    found = [outcomes[c.run_id] for c in cells]
    assert [result.state for result in found] == ["failed", "failed", "failed", "done"]
    assert "the term 'ce' is" in found[0].error
    assert found[1].error == "its process was killed by signal 9 (out of memory?)"
    reason = "line 6, raised ZeroDivisionError: division by zero; correct the file (see "
    assert found[2].error.startswith(f"{broken}, {reason}")
    assert "Traceback" in (out / found[2].cell.run_id / "log.txt").read_text()
    assert found[3].record["run_id"] == cells[3].run_id
    lines = stream.getvalue().splitlines()
    assert sum(": failed: " in line for line in lines) == 3
    assert all(f"/{len(cells)}]" in line for line in lines if line.startswith("["))


@pytest.mark.parametrize("edited", ["mine.py", "encoder.py"])
def test_what_is_edited_while_runs_are_computed_is_not_run_under_the_old_digest(edited, tiny, tmp_path):
    method, encoder = tmp_path / "mine.py", tmp_path / "encoder.py"
    method.write_text(
        "from pathlib import Path\nfrom gplasc.methods.finetune import Finetune\n\n\n"
        "class Mine(Finetune):\n    def end_task(self, ctx):\n"
        f"        path = Path({str(tmp_path / edited)!r})\n"
        "        path.write_text(path.read_text() + '# edited\\n')\n"
    )
    encoder.write_text(
        "import torch\n\n\ndef build():\n    torch.manual_seed(0)\n    return torch.nn.Conv2d(3, 4, 3)\n"
    )
    more = {"model.encoder": f"{encoder}:build"}
    cells = [cell(tiny(str(method), seed=seed, **more)) for seed in (0, 1)]
    outcomes = compute(cells, place(tmp_path / "runs"), Processes(1, 1))
    assert [outcomes[c.run_id].state for c in cells] == ["done", "failed"]
    name = method if edited == "mine.py" else "encoder"
    assert f"{name} changed after the run was planned" in outcomes[cells[1].run_id].error


def test_data_that_changes_while_runs_are_computed_is_not_learned(tmp_path):
    path = tmp_path / "mine.npz"

    def write(value):
        x = np.full((40, 8, 8), value, np.uint8)
        x[:, 0, 0] = np.arange(40) % 4
        np.savez(path, x=x, y=np.arange(40) % 4)

    write(0)
    planned = cell(RunRequest(f"npz:{path}", "finetune", scale="smoke").resolve())
    write(1)
    (outcome,) = compute([planned], place(tmp_path / "runs"), Processes(1, 1)).values()
    assert outcome.error == "data changed after the run was planned; give the same command again"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_log_of_a_run_is_written_neither_through_a_link_nor_to_a_pipe(kind, tiny, tmp_path):
    method = tmp_path / "mine.py"  # what it prints goes into the log
    method.write_text(
        "from gplasc.methods.finetune import Finetune\n\n\n"
        "class Mine(Finetune):\n    def end_task(self, ctx):\n        print('text')\n"
    )
    planned = cell(tiny(str(method)))
    log = tmp_path / "runs" / planned.run_id / "log.txt"
    log.parent.mkdir(parents=True)
    (tmp_path / "precious").write_text("precious")
    os.mkfifo(log) if kind == "pipe" else log.symlink_to(tmp_path / "precious")
    (outcome,) = compute([planned], place(tmp_path / "runs"), Processes(1, 1)).values()
    assert outcome.state == "done"
    assert (tmp_path / "precious").read_text() == "precious"


def test_complete_runs_are_skipped_and_equal_ones_computed_once(tiny, tmp_path):
    first = execute(tiny("finetune"), Workspace(tmp_path, device="cpu"), display=Display())
    executor = Counting()
    cells = [cell(tiny("finetune", seed=s)) for s in (0, 1, 1)]
    outcomes = compute(cells, place(tmp_path), executor)
    assert executor.asked == [cells[1].run_id]
    assert {o.state for o in outcomes.values()} == {"already", "done"}
    assert outcomes[cells[0].run_id].record == first.record


def test_a_damaged_record_is_one_failed_cell(tiny, tmp_path):
    cells = [cell(tiny("finetune", seed=s)) for s in (0, 1)]
    (tmp_path / cells[0].run_id).mkdir(parents=True)
    (tmp_path / cells[0].run_id / "record.json").write_text("{")
    outcomes = compute(cells, place(tmp_path), Processes(1, 1))
    assert [outcomes[c.run_id].state for c in cells] == ["failed", "done"]
    assert "delete it to run again" in outcomes[cells[0].run_id].error


def command(out: Path, *, epochs: int, plugins: str = "none,gplasc") -> list[str]:
    words = ["sweep", "--stream", STREAM, "--method", "co2l", "--buffer", "9", "--scale", "smoke"]
    words += ["--set", f"train.epochs={epochs}", "--set", "model.encoder=small", "--set", "train.batch=8"]
    return [*words, "--grid", f"plugin={plugins}", "--workers", "2", "--threads", "1", "--out", str(out)]


def checkpoints(out: Path) -> set[Path]:
    """The folders of runs that have a checkpoint."""
    return {path.parent for path in out.glob("*/checkpoint-*.pt")}


@pytest.mark.parametrize("whole_group", [True, False], ids=["terminal", "kill"])
def test_ctrl_c_saves_every_run_and_the_sweep_continues(whole_group, tmp_path, write_slow_plugin):
    out, log, hold = (tmp_path / name for name in ("cut", "log", "hold"))
    slow = write_slow_plugin(tmp_path / "slow.py", hold)
    words = command(out, epochs=3, plugins=f"{slow},gplasc+{slow}")
    hold.touch()
    with log.open("w") as file:  # a session of its own, as a shell starts a command
        process = subprocess.Popen(
            [sys.executable, "-m", "gplasc", *words], stdout=file, stderr=file, start_new_session=True
        )
    while len(checkpoints(out)) < 2:
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    assert process.wait(300) == 130, log.read_text()
    assert "interrupted and saved" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert not list(out.glob("*/record.json"))
    assert len(checkpoints(out)) == 2
    if whole_group:
        return  # continued once is enough
    hold.unlink()
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    records = [json.loads(path.read_text()) for path in out.glob("*/record.json")]
    assert sorted(len(record["settings"]["plugins"]) for record in records) == [1, 2]
    logs = [path.read_text() for path in out.glob("*/log.txt")]
    assert len(logs) == 2
    assert all("continuing co2l" in text for text in logs)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for the process in /proc")
def test_ctrl_c_while_workers_start_reaches_the_command_alone(tmp_path):
    words = [sys.executable, "-m", "gplasc", *command(tmp_path, epochs=1, plugins="none")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while True:  # the process that imports what all workers need
        threads = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = {child for path in threads for child in path.read_text().split()}
        servers = [c for c in children if b"forkserver import" in Path(f"/proc/{c}/cmdline").read_bytes()]
        if servers:
            os.kill(int(servers[0]), signal.SIGINT)
            break
        assert process.poll() is None
        time.sleep(0.005)
    error = process.communicate(timeout=300)[1]
    assert process.returncode == 0, error
    assert "Traceback" not in error


def test_runs_save_themselves_when_the_sweep_is_killed(tmp_path, write_slow_plugin):
    out, hold = tmp_path / "runs", tmp_path / "hold"
    slow = write_slow_plugin(tmp_path / "slow.py", hold)
    hold.touch()
    words = [sys.executable, "-m", "gplasc", *command(out, epochs=3, plugins=f"{slow},gplasc+{slow}")]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    while len(checkpoints(out)) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    end = time.monotonic() + 300
    for folder in checkpoints(out):
        while True:
            try:
                with RunFolder(folder).held():
                    pass
                break
            except UserError:  # the run is still alive
                assert time.monotonic() < end, "the run goes on without anybody waiting for it"
                time.sleep(0.05)
        assert list(folder.glob("checkpoint-*.pt"))
        assert not (folder / "record.json").exists()


class Hanging:
    """An executor whose cells end only when they are told to stop: the interface a cluster would implement."""

    def __init__(self) -> None:
        self.calls: list[bool | str] = []
        self.futures: list[tuple[Cell, Future]] = []

    def submit(self, cell, workspace, listener):
        listener(cell, Moment("t", 0, 2, 0, 5, 10, 100, 50.0, 9.0, {"ce": 1.0}))
        self.futures.append((cell, Future()))
        if len(self.futures) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return self.futures[-1][1]

    def stop(self, *, now=False):
        self.calls.append(now)
        for one, future in self.futures:
            if not future.done():
                future.set_result(Outcome(one, "interrupted"))

    def close(self):
        self.calls.append("closed")


def test_any_executor_will_do_and_is_stopped_once(tiny, tmp_path):
    executor = Hanging()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        compute([cell(tiny(seed=s)) for s in (0, 1)], place(tmp_path), executor)
    assert executor.calls == [False, False, "closed"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_live_display_shows_all_runs_and_each_running_one(tiny, tmp_path):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    live = Live(console)
    cells = [cell(tiny(name), name) for name in ("co2l", "er")]
    live.begin(cells)
    live.show(Moment("t", 1, 3, 0, 5, 10, 100, 50.0, 75.0, {"ce": 1.0}), cells[0])
    live.ended(cells[1], "failed", Outcome(cells[1], "failed", error="no data").text)
    console.print(live._progress)
    live.close()
    said, rows = console.file.getvalue().partition("er on tiny, seed 0: failed: no data")[::2]
    assert said == ""
    runs, co2l = rows.split("\n")[1:3]
    assert runs.startswith("runs ")
    assert " ".join(runs.split()).endswith("1/2 1 running, 1 failed; 0:00")
    assert co2l.startswith("co2l on tiny, seed 0 task 2/3")
    assert " ".join(co2l.split()).endswith("10/100 1:15 left")


def test_an_outcome_in_words(tiny, tmp_path):
    record = SimpleNamespace(metric=lambda scenario: 12.345)
    text = Outcome(cell(tiny()), "done", record, seconds=61).text
    assert text == "row on tiny, seed 0: class-IL 12.35, task-IL 12.35 (1:01)"


def test_unique_keeps_the_first(tiny, tmp_path):
    cells = [cell(tiny(seed=s), row) for s, row in ((0, "a"), (1, "b"), (0, "c"))]
    assert [c.row for c in _unique(cells)] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["margin"], "is not an axis of a grid"),
        (["margin="], "is not an axis of a grid"),
        (["margin=[]"], "is not an axis of a grid"),
        (["margin=0.1,,0.2"], "is not an axis of a grid"),
        (["=1"], "is not an axis of a grid"),
        (["margin=1", "margin=2"], "given twice"),
        (["plugin=none", "plugins=gplasc"], "given twice"),
        (["seed=1,2"], "--seeds"),
    ],
)
def test_axes_that_cannot_be_read(words, message):
    with pytest.raises(UserError, match=message):
        parse_axes(words)


def test_a_grid_is_the_product_of_its_axes():
    request = RunRequest(STREAM, "co2l", scale="smoke")
    cells = _grid_cells(parse_axes(["plugin=none,gplasc", "buffer=5,6", "train.lr=0.1"]), (0, 4), request)
    assert [cell.row for cell in cells[::2]] == [
        "plugins=none, buffer=5, train.lr=0.1",
        "plugins=none, buffer=6, train.lr=0.1",
        "plugins=gplasc, buffer=5, train.lr=0.1",
        "plugins=gplasc, buffer=6, train.lr=0.1",
    ]
    assert len({cell.run_id for cell in cells}) == 8
    config = cells[5].spec.config
    assert (config.plugins, config.buffer, config.train.lr, config.seed) == (("gplasc",), 5, 0.1, 4)
    with pytest.raises(UserError, match=r"buffer was given as 'many': .* valid integer"):
        _grid_cells({"buffer": ["many"]}, (0,), request)
    with pytest.raises(UserError, match="did you mean"):
        _grid_cells({"margn": [1]}, (0,), RunRequest(STREAM, "co2l", ("gplasc",)))


def test_the_table_of_a_sweep(tmp_path, capsys):
    words = ["sweep", "--stream", STREAM, "--method", "finetune", "--scale", "smoke", "--buffer", "9"]
    words += ["--set", "model.encoder=small", "--grid", "train.lr=0.1,1e30", "--seeds", "0", "1"]
    words += ["--workers", "2", "--threads", "1", "--device", "cpu", "--out", str(tmp_path), "--quiet"]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--dry-run"])
    assert caught.value.code == 0
    assert "4 runs, 0 complete" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 1, "a failing run must be seen by scripts"
    captured = capsys.readouterr()
    assert captured.err.count("2 failed: the term 'ce' is") == 1
    (path,) = tmp_path.glob("sweep-*/table.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["train.lr"], row["seed"], bool(row["error"])) for row in rows] == [
        ("0.1", "0", False),
        ("0.1", "1", False),
        ("1e+30", "0", True),
        ("1e+30", "1", True),
    ]
    accuracy = [float(row["final_accuracy_class_il"]) for row in rows[:2]]
    assert f"{sum(accuracy) / 2:.2f} ± " in captured.out


def test_a_sweep_names_methods_and_says_what_else_differs(tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text("from gplasc.methods.er import ER\n\n\nclass Mine(ER):\n    pass\n")
    words = ["sweep", "--stream", STREAM, "--scale", "smoke", "--buffer", "9", "--set", "model.encoder=small"]
    words += [
        "--out",
        str(tmp_path / "runs"),
        "--device",
        "cpu",
        "--workers",
        "1",
        "--threads",
        "1",
    ]
    for more in (["--method", str(own)], ["--grid", f"method={own},co2l", "--set", "train.epochs=1"]):
        with pytest.raises(SystemExit):
            main([*words, *more])
    printed = capsys.readouterr()
    assert printed.err.count(f"{own} takes the presets of er;") == 2, "once for each command"
    alone, both = printed.out.split("written: ")[:2]
    for text in (alone, both):
        assert any(line.split()[1:2] == ["mine"] for line in text.splitlines())
    assert "Rows differ in" not in alone
    first, *others = (line for line in both.splitlines() if line.startswith("Rows differ in "))
    assert first == "Rows differ in train.momentum: 0.0 (mine), 0.9 (co2l)."
    assert others


def test_like_is_about_the_own_methods_of_a_sweep(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text("import gplasc\n\n\nclass Mine(gplasc.Method):\n    pass\n")
    request = RunRequest("seq-digits", "co2l", scale="smoke", like="derpp")
    cells = _grid_cells({"method": ["er", str(own), "derpp"]}, (0,), request)
    assert [cell.spec.config.train.lr for cell in cells] == [0.1, 0.03, 0.03]
    with pytest.raises(UserError, match="like is 'derpp' for the method 'er'"):
        _grid_cells({"method": ["er"]}, (0,), request)


def test_a_sweep_at_paper_scale_says_what_was_changed():
    request = RunRequest("seq-digits", "er", scale="paper", settings={"train.epochs": 1})
    for axes, changed in (({"train.lr": [0.1]}, ", train.lr"), ({}, "")):
        study = Study(_grid_cells(axes, (0,), request))
        assert _summary(study, axes, "paper").title.startswith(
            f"scale paper (changed: train.epochs, train.first_epochs{changed}), percent"
        )
    plain = Study(_grid_cells({"method": ["er"]}, (0,), RunRequest("seq-digits", "er", scale="paper")))
    assert _summary(plain, ("method",), "paper").title.startswith("scale paper, percent")


@pytest.mark.parametrize(
    ("axes", "seeds", "message"),
    [
        ({"margin": [0.1, 0.1]}, (0,), "two points of the grid are the same run: margin=0.1 and margin=0.1"),
        ({"margin": [0.1], "gplasc.margin": [0.2, 0.2]}, (0,), "the same run"),
        ({"stream": [3]}, (0,), "stream is 3; give a name"),
        ({}, (0, -1), "the seed -1 is negative"),
        ({}, (3, 0, 3), "the seed 3 is given twice"),
    ],
)
def test_grids_that_make_no_sense(axes, seeds, message):
    with pytest.raises(UserError, match=message):
        _grid_cells(axes, seeds, RunRequest(STREAM, "co2l", ("gplasc",), scale="smoke"))


def test_sound_seeds_pass():
    check_seeds((0, 1, 7))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "--workers", "0"], "--workers was given as 0; it must be at least 1"),
        (["sweep", "--threads", "-3"], "--threads was given as -3; it must be at least 1"),
        (["sweep", "--workers", "0", "--dry-run"], "--workers was given as 0"),
        (["sweep", "--seeds", "1", "1"], "the seed 1 is given twice"),
        (["sweep", "--seed", "1", "--seeds", "2"], "'seed' is given for all points and as an axis"),
        (
            ["sweep", "--stream", "seq-digits", "--grid", "stream=seq-mnist"],
            "'stream' is given for all points",
        ),
        (
            ["sweep", "--plugin", "gplasc", "--grid", "plugin=none,gplasc"],
            "'plugins' is given for all points",
        ),
        (["sweep", "--set", "train.lr=1", "--grid", "train.lr=1,2"], "'train.lr' is given for all points"),
        (["reproduce", "digits", "--workers", "0"], "--workers was given as 0"),
        (["reproduce", "time", "--workers", "-1", "--dry-run"], "--workers was given as -1"),
        (["reproduce", "digits", "--seeds", "-1"], "the seed -1 is negative"),
        (["reproduce", "digits", "--only", "c2l"], "has nothing called 'c2l'; did you mean 'co2l'"),
        (["reproduce", "toy", "--seeds", "1", "2"], "toy is one computation"),
        (["reproduce", "toy", "--only", "co2l"], "toy is one computation"),
    ],
)
def test_mistakes_are_one_sentence(words, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words, "--out", str(tmp_path)])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("environment", "threads", "expected"),
    [("3", None, 3), ("3", 1, 1), ("many", None, 4), ("0", None, 4), ("", None, 4)],
)
def test_threads_honor_the_environment(environment, threads, expected, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    assert Processes(2, threads).threads == expected


@pytest.mark.parametrize(
    ("scale", "free", "workers"), [("smoke", 4e9, 3), ("cpu", 4e9, 2), ("paper", 4e9, 1), ("paper", 1e9, 1)]
)
@pytest.mark.parametrize(("environment", "threads"), [("", 1), ("2", 2)])
def test_all_cores_are_used_as_far_as_the_memory_goes(
    scale, free, workers, environment, threads, monkeypatch
):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr("gplasc.study.executors._free_memory", lambda: int(free))
    monkeypatch.setattr("gplasc.learning.devices.check_device", lambda device: "cpu")
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    processes = Engine().processes(scale)
    assert (processes.workers, processes.threads) == (workers, threads)
    assert Engine(workers=1).processes(scale).workers == Engine().processes(scale, single=True).workers == 1


def test_time_left_is_that_of_the_whole_study(tiny, monkeypatch):
    clock = iter([0.0, 0.0, 60.0])
    monkeypatch.setattr("gplasc._io.display.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    lines, cells = Lines(stream), [cell(tiny(seed=s)) for s in (0, 1)]
    lines.begin(cells, later=4)
    lines.ended(cells[0], "done", "one")
    assert stream.getvalue() == "[1/2] one, about 5:00 left\n"


def test_short_runs_share_a_process_but_nothing_else(tmp_path):
    """A method that uses torch's global generator has the same random numbers in every run."""
    drawing = tmp_path / "drawing.py"
    drawing.write_text(
        "import os, pathlib, torch\nfrom gplasc.methods.finetune import Finetune\n\n\n"
        "class Drawing(Finetune):\n"
        "    def end_task(self, ctx):\n"
        f"        with pathlib.Path({str(tmp_path / 'drawn')!r}).open('a') as file:\n"
        "            print(os.getpid(), float(torch.rand(())), file=file)\n"
    )
    request = RunRequest(STREAM, str(drawing), buffer=9, scale="smoke", settings={"model.encoder": "small"})
    cells = [cell(one.spec) for one in _grid_cells({}, (0, 1), request)]
    outcomes = compute(cells, place(tmp_path / "runs"), Processes(1, 1))
    assert {result.state for result in outcomes.values()} == {"done"}
    lines = [line.split() for line in (tmp_path / "drawn").read_text().splitlines()]
    assert len(lines) == 6
    assert len({process for process, _ in lines}) == 1
    assert [value for _, value in lines[:3]] == [value for _, value in lines[3:]]


def test_a_process_that_was_killed_between_two_runs_is_replaced(tiny, tmp_path):
    executor = Processes(1, 1)
    cells = [cell(tiny("finetune", seed=s)) for s in (0, 1)]
    assert executor.submit(cells[0], place(tmp_path), lambda cell, moment: None).result().state == "done"
    (idle,) = executor._idle
    idle.process.kill()
    idle.process.join()
    assert executor.submit(cells[1], place(tmp_path), lambda cell, moment: None).result().state == "done"
    executor.close()


def test_a_run_can_be_cancelled_alone_and_computed_again(tiny, tmp_path, write_slow_plugin):
    hold = tmp_path / "hold"
    hold.touch()
    slow = cell(tiny("finetune", (str(write_slow_plugin(tmp_path / "slow.py", hold)),)))
    executor, workspace = Processes(2, 1), place(tmp_path)
    waiting, other = (executor.submit(c, workspace, lambda *_: None) for c in (slow, cell(tiny("finetune"))))
    while not list((tmp_path / slow.run_id).glob("checkpoint-*.pt")):
        time.sleep(0.02)
    executor.cancel(slow.run_id)
    assert (waiting.result().state, other.result().state) == ("interrupted", "done")
    hold.unlink()
    assert executor.submit(slow, workspace, lambda *_: None).result().state == "done"
    assert "continuing" in (tmp_path / slow.run_id / "log.txt").read_text()
    executor.close()


def test_a_run_of_another_process_is_waited_for(tiny, tmp_path, monkeypatch):
    """Two sweeps share a folder: the run that the other one holds is taken over when it is complete, or let go."""
    monkeypatch.setattr("gplasc.study.compute._RETRY_EVERY", 0.1)
    cells = [cell(tiny("finetune", seed=s)) for s in (0, 1, 2)]
    elsewhere = execute(cells[0].spec, Workspace(tmp_path / "other", device="cpu"), display=Display())
    stream = io.StringIO()
    with ExitStack() as holds:
        holds.enter_context(RunFolder(tmp_path / cells[0].run_id).held())
        letting_go = holds.enter_context(ExitStack())
        letting_go.enter_context(RunFolder(tmp_path / cells[1].run_id).held())

        class Watching(Lines):
            def ended(self, cell, state, text):
                super().ended(cell, state, text)
                # The other sweep completes its first run and is killed in its second.
                if cell is cells[2]:
                    shutil.copy(elsewhere.folder / "record.json", tmp_path / cells[0].run_id)
                    letting_go.close()

        outcomes = compute(cells, place(tmp_path), Processes(1, 1), Watching(stream))
    assert {result.state for result in outcomes.values()} <= {"already", "done"}
    record = outcomes[cells[0].run_id].record
    assert record["timings"] == elsewhere.record["timings"], "it is not computed again"
    text = stream.getvalue()
    assert text.count("another process is computing it; waiting for its result") == 2
    assert "[3/3]" in text


def test_two_sweeps_on_one_folder_share_the_work(tmp_path, capsys):
    words = [*command(tmp_path / "runs", epochs=2), "--seeds", "0", "1"]
    other = subprocess.Popen(
        [sys.executable, "-m", "gplasc", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with pytest.raises(SystemExit) as caught:
        main(words)
    texts = other.communicate(timeout=900)
    assert (caught.value.code, other.returncode) == (0, 0), texts
    assert capsys.readouterr().out == texts[0], "the same table"
    assert len(list((tmp_path / "runs").glob("*/record.json"))) == 4
