"""A result in Python: short texts, frames, a picture, and its network; code only from files that were named."""

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.calling import call

import gplasc
from gplasc.errors import UserError
from gplasc.streams import open_stream

STREAM = "synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4"
TINY = {"scale": "smoke", "buffer": 4, "quiet": True, "device": "cpu", "train.epochs": 1}
TINY |= {"model.features": "signed"}
METHOD = """
from pathlib import Path
from gplasc.methods.er import ER
Path({mark!r}).touch()
class Mine(ER):
    pass
"""
PLUGIN = """
from pathlib import Path
from gplasc.plugins.gplasc import GPLASCPlugin
Path({mark!r}).touch()
class Added(GPLASCPlugin):
    pass
"""
ENCODER = """
from pathlib import Path
import torch
Path({mark!r}).touch()
def build():
    return torch.nn.Conv2d(3, 4, 3)
"""


def run(method="er", plugins=(), **more):
    return gplasc.run(STREAM, method, plugins, **{"out": "runs", "model.encoder": "small"} | TINY | more)


@pytest.fixture
def result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return run()


def test_texts_matrix_and_picture(result):
    assert repr(result).startswith(f"Result(er on {STREAM}, seed 0: class-IL ")
    assert len(repr(result)) < 250
    assert result._repr_html_().count("<table>") == 3
    rows = result.record["matrix"]["class_il"]
    assert result.matrix["class_il"][1].tolist() == rows[1]
    assert np.isnan(result.matrix["class_il"][0, 1])
    axes = result.plot("task_il")
    assert axes.lines[-1].get_ydata()[1] == pytest.approx(np.mean(result.record["matrix"]["task_il"][1]))
    assert axes.get_ylabel() == "task-IL accuracy, percent"
    with pytest.raises(UserError, match="there is no scenario 'x'"):
        result.plot("x")


def test_frames(result):
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert frame.query("after_task == 2 and task == 1").task_il.item() == result.matrix["task_il"][1, 0]
    assert len(frame) == 3
    (Path("runs") / "damaged").mkdir()
    (Path("runs") / "damaged" / "record.json").write_text("{")
    with pytest.warns(UserWarning, match="skipped: "):
        runs = gplasc.load_runs("runs")
    assert runs["class_il.final_accuracy"].item() == result.metric()
    assert runs["train.epochs"].item() == 1
    with pytest.raises(UserError, match="there is no folder nowhere"):
        gplasc.load_runs("nowhere")


def test_what_frames_are_made_of(result, monkeypatch):
    """Also where pandas is not installed: one row for each entry of the matrices, and one for each run."""
    frame = SimpleNamespace(
        DataFrame=lambda rows, columns: [dict(zip(columns, r, strict=True)) for r in rows]
    )
    monkeypatch.setitem(sys.modules, "pandas", frame)
    entries = {(row["after_task"], row["task"]): row["task_il"] for row in result.to_frame()}
    matrix = result.matrix["task_il"]
    assert entries == {(1, 1): matrix[0, 0], (2, 1): matrix[1, 0], (2, 2): matrix[1, 1]}
    other = run(seed=1)
    runs = {row["run_id"]: row for row in gplasc.load_runs("runs")}
    assert runs.keys() == {result.run_id, other.run_id}
    assert runs[other.run_id]["class_il.final_accuracy"] == other.metric()
    assert (runs[other.run_id]["seed"], runs[result.run_id]["train.epochs"]) == (1, 1)


def test_frames_without_pandas(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for make in (result.to_frame, gplasc.load_runs):
        with pytest.raises(UserError, match="pandas is not installed"):
            make()


def test_the_list_of_runs(result, capsys):
    assert call("runs", "--csv") == 0
    head, line = csv.reader(capsys.readouterr().out.splitlines())
    values = dict(zip(head, line, strict=True))
    assert (values["run_id"], values["train.epochs"]) == (result.run_id, "1")
    assert float(values["class_il.final_accuracy"]) == result.metric()
    assert call("runs") == 0
    assert result.run_id in capsys.readouterr().out
    assert call("runs", "nowhere") == 2


def test_public_names_only():
    assert dir(gplasc) == sorted(gplasc.__all__)


def test_a_result_is_loaded_and_has_features_of_images(result):
    loaded = result.load(device="cpu")
    samples = open_stream(STREAM)[0].test
    features = loaded.features(samples)
    assert torch.equal(loaded.features(samples.x.permute(0, 2, 3, 1).numpy()), features)
    assert loaded.predictor(features).shape == (len(samples), 4)
    assert torch.equal(gplasc.Result.read(result.folder).load(device="cpu").features(samples), features)
    with pytest.raises(UserError, match="resize them"):
        loaded.features(np.zeros((2, 9, 9), np.uint8))
    with pytest.raises(UserError, match="no complete run in nowhere"):
        gplasc.Result.read("nowhere")


def test_a_record_with_settings_of_other_components_is_one_sentence(result, tmp_path):
    data = result.record.to_dict()
    data["settings"]["options"]["other"] = {}
    (tmp_path / "record.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match="settings of components that it does not name"):
        gplasc.Result.read(tmp_path).load(device="cpu")


@pytest.mark.parametrize(
    ("argument", "source"), [("method", METHOD), ("plugins", PLUGIN), ("encoder", ENCODER)]
)
def test_code_that_a_record_names_is_loaded_only_if_the_caller_names_it(
    argument, source, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "executed"
    path = Path("mine.py")
    path.write_text(source.format(mark=str(mark)))
    given = {"method": "mine.py", "plugins": ["mine.py"], "encoder": "mine.py:build"}[argument]
    more = {"model.encoder": given} if argument == "encoder" else {argument: given}
    result = run(**more)
    assert result.load(device="cpu").network  # this run named the file
    mark.unlink()
    read = gplasc.Result.read(result.folder)
    with pytest.raises(UserError, match=rf"not loaded unless you name it: load\({argument}=...\)"):
        read.load(device="cpu")
    assert not mark.exists()
    assert read.load(device="cpu", **{argument: given}).record.run_id == result.run_id
    if argument == "method":
        with pytest.raises(UserError, match=r"er is not what the run used as mine.py; give that version"):
            read.load(device="cpu", method="er")
    assert mark.exists()
    path.write_text(path.read_text() + "# edited\n")
    with pytest.raises(UserError, match="is not what the run used"):
        read.load(device="cpu", **{argument: given})
