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
from gplasc.errors import UserError

from . import adapters

DATA = Path(__file__).parent / "data"
EXPECTED = adapters.read_json(DATA / "stored.json")


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


def test_a_classifier_of_that_version_is_refused_in_one_sentence():
    with pytest.raises(UserError, match=r"written by gplasc 0\.2, .* learn its images again in a new folder"):
        ContinualClassifier.load(DATA / "classifier")
