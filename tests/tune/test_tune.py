"""Studies on a validation split: the paper's spaces, several workers, killed and continued."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gplasc._io.display import Display, Lines, Moment
from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.runs.spec import RunRequest
from gplasc.study.cell import Outcome
from gplasc.study.executors import Engine
from gplasc.study.points import tune_space
from gplasc.study.search import Search, _Driver, _finished, _open_study, _run_search, on_validation, tune

optuna = pytest.importorskip("optuna")
SPACES = Path(__file__).parents[1] / "data" / "hyperparameter_space.csv"
NAMES = {
    "margin": "gplasc.margin",
    "lambda_distill": "gplasc.lambda_distill",
    "lambda_range": "gplasc.lambda_range",
    "lambda_position": "gplasc.lambda_position",
    "learning_rate": "train.lr",
    "start_epochs": "train.first_epochs",
    "epochs": "train.epochs",
    "bsz": "train.batch",
    "tau": "co2l.temperature",
}


@pytest.mark.parametrize(
    "stream", ["seq-cifar10", "seq-cifar100", "seq-tinyimagenet", "cub200", "imagenet-r"]
)
def test_the_spaces_are_those_of_the_paper(stream):
    wanted = {}
    for row in csv.DictReader(SPACES.read_text().splitlines()):
        if stream.replace("seq-tinyimagenet", "seq-tinyimg") in row["dataset"].split("/"):
            wanted[NAMES[row["parameter"]]] = {float(value) for value in row["values"].split(";")}
    found = tune_space((), RunRequest(stream, "co2l", ["gplasc"], scale="paper").resolve().config)
    assert {name: set(map(float, values)) for name, values in found.items()} == wanted
    cheaper = tune_space((), RunRequest(stream, "co2l", ["gplasc"], scale="cpu").resolve().config)
    assert set(found) - set(cheaper) == {"train.first_epochs", "train.epochs", "train.batch"}


def test_a_search_never_looks_at_the_test_split():
    assert on_validation({}) == {"data.evaluate_on": "validation", "data.validation": 0.1}
    assert on_validation({"validation": 0.3})["data.validation"] == 0.3
    with pytest.raises(UserError, match="must not look at the test split"):
        on_validation({"data.evaluate_on": "test"})


def test_what_decides_the_comparison_is_not_searched():
    with pytest.raises(UserError, match="'buffer' cannot be searched"):
        tune_space(["buffer=1,2"], RunRequest("x", "er"))


def command(out: Path, trials: int, *more: str) -> list[str]:
    words = [
        "tune",
        "--stream",
        "synthetic:tasks=3,classes=2,size=8,channels=1,train=20,test=6",
        "--method",
        "er",
    ]
    words += ["--buffer", "9", "--scale", "smoke", "--set", "model.encoder=small", "--set", "train.batch=8"]
    words += ["--set", "data.images_per_class=20", "--space", "train.lr=0.001,0.01,0.1,0.3"]
    return [*words, "--trials", str(trials), "--out", str(out), "--threads", "1", "--device", "cpu", *more]


def run(words: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return int(caught.value.code)


def trials(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((out / "trials.csv").read_text().splitlines()))


class Pretend:
    """An engine and its executor; the accuracies of a run follow from its learning rate, and are reported if `live`."""

    slots = 1

    def __init__(self, live):
        self.live, self.cancelled = live, []

    def processes(self, scale):
        return self

    open = processes

    def submit(self, cell, workspace, listener):
        final = 100 * cell.spec.config.train.lr
        rows = [[final - 9.0], [final, final], [final, final, final]]
        if self.live:
            means = tuple(sum(row) / len(row) for row in rows)
            listener(cell, Moment("", 1, 3, 0, 1, 5, 10, 1.0, 1.0, {}, means[:2]))
        record = SimpleNamespace(matrix={"class_il": rows}, metric=lambda scenario="": final)
        future = Future()
        future.set_result(Outcome(cell, "done", record))
        return future

    def cancel(self, run_id):
        self.cancelled.append(run_id)

    def stop(self, *, now=False):
        pass

    close = stop


def test_a_trial_is_pruned_by_its_accuracies_alone_whenever_they_arrive(tmp_path):
    request = RunRequest("seq-digits", "er", scale="smoke")
    studies = {}
    for live in (True, False):
        search = Search(request, {"train.lr": [n / 20 for n in range(1, 13)]}, 16, tmp_path / str(live))
        executor = Pretend(live)
        studies[live] = _run_search(search, executor, Display()).trials
        pruned = [t.user_attrs["run_id"] for t in studies[live] if t.state.name == "PRUNED"]
        assert pruned
        assert executor.cancelled == (pruned if live else [])
    assert [(t.state, t.params, t.intermediate_values, t.value) for t in studies[True]] == [
        (t.state, t.params, t.intermediate_values, t.value) for t in studies[False]
    ]


@pytest.mark.parametrize("first", [True, False])
def test_all_trials_have_the_precision_that_the_first_machine_chose(first, tmp_path, monkeypatch):
    request = RunRequest("seq-digits", "er", scale="smoke", settings={"model.width": 32})
    search, seen = Search(request, {"train.lr": [n / 20 for n in range(1, 13)]}, 0, tmp_path), []

    class Noting(Pretend):
        def submit(self, cell, workspace, listener):
            seen.append(cell.spec.config.train.precision)
            return super().submit(cell, workspace, listener)

    for native, trials in ((first, 2), (not first, 4)):
        for module in ("study.search", "runs.spec"):
            monkeypatch.setattr(f"gplasc.{module}.computes_bfloat16", lambda device, native=native: native)
        tune(replace(search, trials=trials), Noting(True), Display())
    precision = "bfloat16" if first else "float32"
    assert set(seen) == {precision}
    assert f'precision = "{precision}"' in (tmp_path / "best.toml").read_text()


def test_a_killed_study_is_continued_to_its_number_of_trials(tmp_path):
    more = ("--workers", "2", "--set", "train.epochs=3")
    endless = [sys.executable, "-m", "gplasc", *command(tmp_path, 10**6, *more)]
    process = subprocess.Popen(endless, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list(tmp_path.glob("runs/*/record.json")):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "best.toml").exists()
    study = optuna.load_study(study_name="gplasc", storage=f"sqlite:///{tmp_path / 'study.db'}")
    wanted = len(_finished(study)) + 4
    assert run(command(tmp_path, wanted, *more)) == 0
    found = trials(tmp_path)
    assert len(found) == wanted
    assert {row["state"] for row in found} <= {"complete", "pruned"}
    best = max(
        (row for row in found if row["state"] == "complete"), key=lambda r: float(r["class_il_validation"])
    )
    record = json.loads((tmp_path / "runs" / best["run_id"] / "record.json").read_text())
    assert record["settings"]["data"]["evaluate_on"] == "validation"
    assert record["settings"]["data"]["validation"] == 0.1
    settings = tomllib.loads((tmp_path / "best.toml").read_text())
    assert settings["train"]["lr"] == float(best["train.lr"])
    assert (settings["data"]["evaluate_on"], settings["data"]["validation"]) == ("test", 0.0)
    assert (
        run(["run", "--config", str(tmp_path / "best.toml"), "--out", str(tmp_path / "final"), "--quiet"])
        == 0
    )
    with pytest.raises(UserError, match=r"begun with another .*space"):
        _open_study(Search(RunRequest("x", "er"), {"train.lr": [1.0]}, 5, tmp_path))


def test_an_edited_method_is_another_study(tmp_path):
    """Trials of two versions of a file are not compared in one table."""
    path = tmp_path / "mine.py"
    path.write_text("from gplasc.methods.er import ER\n\n\nclass Mine(ER):\n    pass\n")
    search = Search(RunRequest("seq-digits", str(path)), {"train.lr": [1.0]}, 5, tmp_path)
    assert _open_study(search).user_attrs == _open_study(search).user_attrs
    path.write_text(path.read_text() + "# edited\n")
    with pytest.raises(UserError, match=r"begun with another version of .*mine.py; choose another --out"):
        _open_study(search)


def test_a_search_says_whose_presets_an_own_method_takes(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from gplasc.methods.er import ER\n\n\nclass Mine(ER):\n    pass\n")
    said = io.StringIO()
    with pytest.raises(UserError, match="--trials was given as 0"):
        tune(
            Search(RunRequest("seq-digits", str(path)), {"train.lr": [1.0]}, 0, tmp_path),
            Engine(),
            Lines(said),
        )
    assert f"{path} takes the presets of er;" in said.getvalue()


def test_a_method_that_is_edited_during_a_search_ends_it(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from gplasc.methods.er import ER\n\n\nclass Mine(ER):\n    pass\n")
    search = Search(RunRequest("seq-digits", str(path), buffer=4), {"train.lr": [1.0, 2.0]}, 5, tmp_path)
    driver = _Driver(search, _open_study(search), None, Display())
    trials = driver.cells()
    next(trials)
    path.write_text(path.read_text() + "# edited\n")
    with pytest.raises(UserError, match=r"mine.py changed during the search; restore it"):
        list(trials)


@pytest.mark.parametrize("damage", ["text", "cut", "zeros", "attribute"])
def test_a_damaged_study_is_one_sentence(damage, tmp_path):
    search = Search(RunRequest("seq-digits", "er"), {"train.lr": [1.0]}, 5, tmp_path)
    _open_study(search)
    path = tmp_path / "study.db"
    content = path.read_bytes()
    damaged = {
        "text": b"hello",
        "cut": content[: len(content) // 3],
        "zeros": content[:8192] + bytes(8192) + content[16384:],
        "attribute": content.replace(b'"train.lr": [1.0]', b'"train.lr": [1.0}'),
    }
    path.write_bytes(damaged[damage])
    assert path.read_bytes() != content
    with pytest.raises(UserError, match=r"study.db cannot be used \(.*\); give an address"):
        _open_study(search)
