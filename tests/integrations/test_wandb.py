"""What is logged, against what the record of the run says; wandb itself is replaced by a list."""

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

    def log(self, values, step) -> None:
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


def test_its_absence_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="pip install wandb"):
        gplasc.run(
            "seq-digits", "er", scale="smoke", quiet=True, out=tmp_path, callbacks=[WeightsAndBiases()]
        )
