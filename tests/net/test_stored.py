"""Folders of runs and of a classifier that commit e46d05f wrote (on the CPU, at smoke scale) load and go on.

`co2l` and `er` are finished runs of ``gplasc run --stream seq-digits --method NAME`` with the plug-in gplasc for co2l,
`unfinished` is the run `co2l` stopped in its third task, `classifier` a `ContinualClassifier`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gplasc import ContinualClassifier

from . import adapters

DATA = Path(__file__).parent / "data"
EXPECTED = adapters.read_json(DATA / "stored.json")


def images(*labels: int, count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Images of 8 x 8 pixels with a bright block whose place depends on the label, without any chance."""
    x = np.arange(len(labels) * count * 64).reshape(-1, 8, 8, 1) * 37 % 61
    for number, label in enumerate(np.repeat(labels, count)):
        row, column = divmod(int(label), 3)
        x[number, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += 180
    return x.astype(np.uint8), np.repeat(labels, count)


def copied(name: str, tmp_path: Path) -> Path:
    """Copy a folder of a run to where a run of its settings looks for it."""
    return Path(shutil.copytree(DATA / name, tmp_path / EXPECTED["run_ids"][name]))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a finished run, without the settings that a module may keep among them."""
    tensors = load_file(folder / "weights.safetensors")
    return {name: value for name, value in tensors.items() if not name.endswith("_extra_state")}


@pytest.fixture(autouse=True)
def _same_version(monkeypatch):
    """A checkpoint is continued by the version of gplasc that wrote it."""
    monkeypatch.setattr("gplasc.__version__", EXPECTED["version"])


@pytest.mark.parametrize("name", ["co2l", "er"])
def test_a_finished_run_is_read(name, tmp_path):
    folder = copied(name, tmp_path)
    tensors, predictions, matrix = adapters.restored_run(folder)
    stored = weights(folder)
    assert set(tensors) == set(stored)
    for key, value in stored.items():
        assert torch.equal(tensors[key], value), key
    assert matrix == json.loads((folder / "record.json").read_text())["matrix"]
    same = np.equal(predictions, EXPECTED["predictions"][name])
    assert same.mean() > 0.95, "another processor may decide a tie in another way"


@pytest.mark.parametrize("name", ["co2l", "er"])
def test_a_finished_run_is_not_computed_again(name, tmp_path):
    folder = copied(name, tmp_path)
    before = (folder / "record.json").read_bytes()
    code, printed = adapters.command([*EXPECTED["commands"][name], "--out", str(tmp_path)])
    assert code == 0
    assert (folder / "record.json").read_bytes() == before
    assert json.loads(printed)["run_id"] == folder.name


def test_an_unfinished_run_is_continued_to_its_end(tmp_path):
    folder = copied("unfinished", tmp_path)
    first, *lines = (folder / "terms.jsonl").read_text().splitlines()
    assert 0 < len(lines) + 1 < EXPECTED["steps"]
    marked = first.replace('"task": 0', '"task": 77')  # a run that starts over would lose the mark
    assert marked != first
    (folder / "terms.jsonl").write_text("\n".join([marked, *lines, ""]))
    code, printed = adapters.command([*EXPECTED["commands"]["co2l"], "--out", str(tmp_path)])
    assert code == 0
    assert json.loads(printed)["steps"] == EXPECTED["steps"]
    present = (folder / "terms.jsonl").read_text().splitlines()
    assert present[: len(lines) + 1] == [marked, *lines]
    assert len(present) == EXPECTED["steps"]
    assert not list(folder.glob("checkpoint-*"))
    tensors, whole = weights(folder), weights(DATA / "co2l")
    assert set(tensors) == set(whole)
    for key, value in whole.items():
        assert torch.allclose(tensors[key].double(), value.double(), rtol=1e-3, atol=1e-4), key


def test_a_classifier_predicts_as_before_and_learns_further(tmp_path):
    folder = Path(shutil.copytree(DATA / "classifier", tmp_path / "classifier"))
    classifier = ContinualClassifier.load(folder, device="cpu", quiet=True)
    x, _ = images(0, 1, 2, 3)
    same = np.equal(classifier.predict(x), EXPECTED["predictions"]["classifier"])
    assert same.mean() > 0.9, "another processor may decide a tie in another way"
    assert len(classifier.tasks_) == 2
    classifier.learn(*images(4, 5))
    assert classifier.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    classifier.save(folder)
    again = ContinualClassifier.load(folder, device="cpu", quiet=True)
    assert np.array_equal(again.predict_proba(x), classifier.predict_proba(x))
