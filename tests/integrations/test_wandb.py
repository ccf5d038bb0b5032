"""What is logged, against what the record of the run says: with a list in place of wandb, and with wandb offline."""

import importlib.util
import sys
import types
from statistics import fmean

import pytest

import gplasc
from gplasc.errors import UserError
from gplasc.integrations.wandb import WeightsAndBiases


class Log:
    def __init__(self, **options) -> None:
        self.options = options
        self.rows: list[tuple[dict[str, float], int]] = []

    def log(self, values, step, commit=False) -> None:
        self.rows.append((values, step))


def test_terms_and_accuracies_are_logged(tmp_path, monkeypatch):
    opened = []
    stand_in = types.ModuleType("wandb")
    stand_in.init = lambda **options: opened.append(Log(**options)) or opened[-1]
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    callback = WeightsAndBiases(project="digits")
    result = gplasc.run("seq-digits", "er", scale="smoke", quiet=True, out=tmp_path, callbacks=[callback])
    (log,) = opened
    assert (log.options["project"], log.options["name"]) == ("digits", "er")
    assert log.options["config"]["train.batch"] == result.record["settings"]["train"]["batch"]
    matrix = result.record["matrix"]["class_il"]
    found = [values["accuracy/class_il"] for values, _ in log.rows if "accuracy/class_il" in values]
    assert found == pytest.approx([fmean(row[: number + 1]) for number, row in enumerate(matrix)])
    steps = [step for values, step in log.rows if "terms/ce" in values]
    assert steps == list(range(1, result.record["steps"] + 1))


def test_a_run_that_resumes_inside_a_task_is_opened_by_its_first_row(monkeypatch):
    opened = []
    learner = types.SimpleNamespace(config=types.SimpleNamespace(title="er", flat=dict))
    stand_in = types.ModuleType("wandb")
    stand_in.init = lambda **options: opened.append(Log(**options)) or opened[-1]
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    WeightsAndBiases().on_log(learner, [{"step": 4, "ce": 1.0}])
    assert [step for _, step in opened[0].rows] == [4]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="wandb is not installed")
@pytest.mark.filterwarnings("ignore")
def test_two_runs_of_one_process_with_wandb_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    runs = []
    for seed in (0, 1):
        callback = WeightsAndBiases(project="digits", mode="offline")
        result = gplasc.run(
            "seq-digits",
            "er",
            scale="smoke",
            quiet=True,
            seed=seed,
            out=tmp_path / "runs",
            callbacks=[callback],
        )
        runs.append(callback._run)
        summary = dict(callback._run.summary)
        assert summary["accuracy/class_il"] == pytest.approx(result.metric("final_accuracy"))
        assert summary["terms/step"] == result.record["steps"]
        assert callback._run.config["seed"] == seed
    for run in runs:
        run.finish()
    assert runs[0].id != runs[1].id
    assert len(list(tmp_path.rglob("*.wandb"))) == 2


def test_its_absence_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="pip install wandb"):
        gplasc.run(
            "seq-digits", "er", scale="smoke", quiet=True, out=tmp_path, callbacks=[WeightsAndBiases()]
        )
