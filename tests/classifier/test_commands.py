"""predict and info, as commands."""

import csv
import json
import sys

import pytest
from tests.calling import call

from gplasc import ContinualClassifier

QUICK = ["--method", "slda", "--encoder", "small", "--image-size", "12", "--quiet"]


@pytest.fixture
def state(folder, tmp_path):
    for name, labels in (("one", (0, 1)), ("two", (2,))):
        assert call("learn", tmp_path / "state", folder(name, *labels), *QUICK) == 0
    return tmp_path / "state"


def output(capsys, *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    return call(*words), *capsys.readouterr()


def test_predict_prints_the_classes_of_files_and_folders(state, folder, capsys, monkeypatch):
    images = folder("test", 0, 2, count=2, seed=1)
    classifier = ContinualClassifier.load(state, quiet=True)
    files = sorted(images.rglob("*.png"))
    expected = classifier.predict_proba(files)
    code, out, _ = output(capsys, "predict", state, images, "--json", "--top", 2)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["file"] for row in rows] == [str(file) for file in files]
    for row, probabilities in zip(rows, expected, strict=True):
        order = probabilities.argsort()[::-1][:2]
        assert [entry["class"] for entry in row["predictions"]] == classifier.classes_[order].tolist()
        shown = [entry["probability"] for entry in row["predictions"]]
        assert shown == pytest.approx(probabilities[order].tolist(), abs=1e-5)
    _, out, _ = output(capsys, "predict", state, files[0], files[1], "--csv")
    table = list(csv.DictReader(out.splitlines()))
    assert [line["class"] for line in table] == [row["predictions"][0]["class"] for row in rows[:2]]
    (formula := images / "=1+1.png").write_bytes(files[0].read_bytes())
    monkeypatch.chdir(images)
    _, out, _ = output(capsys, "predict", state, formula.name, "--csv")
    assert out.splitlines()[1].startswith("'=1+1.png,")
    _, out, _ = output(capsys, "predict", state, files[0])
    assert rows[0]["predictions"][0]["class"] in out
    for number in range(100):
        (images / f"{number}.png").write_bytes(files[0].read_bytes())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)  # for a progress bar
    _, out, _ = output(capsys, "predict", state, images, "--json")
    assert len(out.splitlines()) == len(files) + 101


@pytest.mark.filterwarnings("default")
def test_predict_explains_what_it_cannot_read(state, tmp_path, folder, capsys):
    good = folder("test", 0, count=1)
    (good / "class 0" / "bad.png").write_bytes(b"no image")
    code, _, err = output(capsys, "predict", state, good)
    assert (code, "bad.png cannot be decoded" in err) == (2, True)
    code, out, err = output(capsys, "predict", state, good, "--skip-corrupt", "--json")
    assert (code, len(out.splitlines()), "left out" in err) == (0, 1, True)
    assert output(capsys, "predict", state, tmp_path / "nowhere.jpg")[0] == 2
    assert output(capsys, "predict", tmp_path / "no state", good)[0] == 2
    assert output(capsys, "predict", state, good, "--top", 0)[0] == 2


def test_info_says_what_was_learned(state, capsys):
    code, out, _ = output(capsys, "info", state, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["classes"] == ["class 0", "class 1", "class 2"]
    assert [task["images"] for task in facts["tasks"]] == [20, 10]
    assert facts["image_shape"] == [3, 12, 12]
    assert not facts["interrupted"]
    _, out, _ = output(capsys, "info", state)
    assert "3: class 0, class 1, class 2" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "slda" in out
