"""State folders: whole or as before, killed and continued bit for bit, one writer, readable later."""

import json
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.calling import call
from tests.soak.cuts import Cut, processes
from tests.soak.learning import LearnRunner, cut_learning, learned, write_months

from gplasc import ContinualClassifier
from gplasc._io.lock import locked
from gplasc.classifier import state as states
from gplasc.errors import UserError
from gplasc.learning import checkpoints

from .conftest import arrays

QUICK = ["--scale", "smoke", "--encoder", "small", "--image-size", "8", "--buffer", "12", "--device", "cpu"]


@pytest.mark.parametrize("method", ["co2l", "er", "slda"])
def test_a_loaded_classifier_predicts_and_goes_on_bit_for_bit(method, new, tmp_path):
    plugins = ("gplasc",) if method == "co2l" else ()
    whole = new(method, plugins).learn(*arrays(0, 1)).learn(*arrays(2, 3))
    first = new(method, plugins).learn(*arrays(0, 1))
    first.save(tmp_path / "state")
    second = ContinualClassifier.load(tmp_path / "state", device="cpu", quiet=True)
    x, _ = arrays(0, 1, 2, 3, seed=1)
    assert np.array_equal(second.predict_proba(x), first.predict_proba(x))
    assert np.array_equal(second.learn(*arrays(2, 3)).predict_proba(x), whole.predict_proba(x))
    assert second.get_params() == first.get_params()


def test_settings_of_numpy_are_saved(new, tmp_path):
    settings = {"buffer": np.int64(12), "seed": np.int32(3), "held_out": np.float32(0.5)}
    new(**settings, **{"train.epochs": np.int64(1)}).learn(*arrays(0, 1)).save(tmp_path / "state")
    loaded = ContinualClassifier.load(tmp_path / "state").get_params()
    assert {name: loaded[name] for name in settings} == settings


def test_a_state_that_cannot_be_read_is_explained(new, tmp_path):
    folder = tmp_path / "state"
    with pytest.raises(UserError, match="there is no classifier"):
        ContinualClassifier.load(folder)
    new().learn(*arrays(0, 1)).save(folder)
    index = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**index, "format": 99}))
    with pytest.raises(UserError, match="has the format 99, this version reads up to 1"):
        ContinualClassifier.load(folder)
    (folder / "state.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        ContinualClassifier.load(folder)
    (folder / "state.json").write_text(json.dumps(index))
    (path,) = folder.glob("learned-*.pt")
    path.write_bytes(path.read_bytes()[:-100] + b"x" * 100)
    with pytest.raises(UserError, match="is damaged"):
        ContinualClassifier.load(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 0}, "unknown format 0"),
        ({"config": 3}, "config"),
        ({"files": {"learned": "../learned-00.pt", "encoder": None}}, "files.learned"),
        ({"classes": [0, 2]}, "the classes must be those that the tasks brought"),
        ({"tasks": []}, "tasks"),
        ({"shape": [2, 8, 8]}, "shape must be"),
        ({"parameters": {}}, "parameters.method"),
    ],
)
def test_an_index_with_other_values_is_refused(change, said, new, tmp_path):
    new().learn(*arrays(0, 1)).save(tmp_path)
    path = tmp_path / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=said) as caught:
        ContinualClassifier.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_learned_part_with_other_keys_is_refused(new, tmp_path):
    new().learn(*arrays(0, 1)).save(tmp_path)
    (path,) = tmp_path.glob("learned-*.pt")
    found = checkpoints.read_state(path)
    found["learner"].popitem()
    checkpoints.write_state(path, found)
    with pytest.raises(UserError, match="does not fit its settings") as caught:
        ContinualClassifier.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_state_that_is_replaced_while_it_is_loaded_is_read_again(new, tmp_path, monkeypatch):
    """Between the index and the file it names, another process may write the next state."""
    new().learn(*arrays(0, 1)).save(tmp_path)
    read = states.SavedState.read_tensors

    def late(saved):
        monkeypatch.undo()
        new().learn(*arrays(0, 1, 2)).save(tmp_path)
        return read(saved)

    monkeypatch.setattr(states.SavedState, "read_tensors", late)
    assert ContinualClassifier.load(tmp_path, quiet=True).classes_.tolist() == [0, 1, 2]


def test_older_formats_are_migrated_step_by_step(new, tmp_path, monkeypatch):
    new().learn(*arrays(0, 1)).save(tmp_path)
    index = json.loads((tmp_path / "state.json").read_text())
    index["labels"] = index.pop("classes")
    (tmp_path / "state.json").write_text(json.dumps(index))

    def rename(old):
        return {**{name: value for name, value in old.items() if name != "labels"}, "classes": old["labels"]}

    monkeypatch.setattr(states, "FORMAT", 3)
    monkeypatch.setattr(states, "_MIGRATIONS", {1: rename, 2: lambda old: old})
    assert ContinualClassifier.load(tmp_path, quiet=True).classes_.tolist() == [0, 1]


def test_a_state_of_format_1_can_still_be_read():
    """The folder was written by the first version that had state folders; it must load for ever."""
    folder = Path(__file__).parent / "data" / "format-1"
    classifier = ContinualClassifier.load(folder, device="cpu", quiet=True)
    x, _ = arrays(0, 1, 2)
    assert classifier.classes_.tolist() == [0, 1, 2]
    expected = np.array(json.loads((folder.parent / "format-1.json").read_text()))
    assert np.allclose(classifier.predict_proba(x[::5]), expected, atol=1e-4)
    classifier.learn(*arrays(3))
    assert len(classifier.tasks_) == 3


def test_a_folder_of_something_else_is_not_touched(new, tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(UserError, match="not empty and holds no classifier"):
        new().learn(*arrays(0, 1)).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# ---- gplasc learn ------------------------------------------------------------------------------------------------


def test_learning_the_same_folder_twice_changes_nothing(folder, tmp_path, capsys):
    images, state = folder("a", 0, 1), tmp_path / "state"
    assert call("learn", state, images, *QUICK, "--quiet") == 0
    before = (state / "state.json").read_bytes()
    assert call("learn", state, images, "--quiet") == 0
    assert (state / "state.json").read_bytes() == before
    assert "new classes: class 0, class 1" in capsys.readouterr().out


def test_settings_of_a_state_cannot_change(folder, tmp_path, capsys):
    state = tmp_path / "state"
    assert call("learn", state, folder("a", 0, 1), *QUICK, "--quiet") == 0
    assert call("learn", state, folder("b", 2), "--method", "er") == 2
    assert "method is 'er', but the classifier in" in capsys.readouterr().err


def test_the_second_of_two_is_refused(folder, tmp_path, capsys):
    state = tmp_path / "state"
    with locked(state / "lock"):
        assert call("learn", state, folder("a", 0, 1), *QUICK) == 2
    assert "another process is learning" in capsys.readouterr().err


def test_a_refused_first_task_leaves_nothing(folder, tmp_path, capsys):
    state, images = tmp_path / "state", folder("a", 0, 1)
    encoder = tmp_path / "mine.py"
    encoder.write_text("import torch\ndef build():\n    return torch.nn.Flatten(0)\n", encoding="utf-8")
    refused = (
        ("learn", state, tmp_path / "missing", *QUICK),
        ("learn", state, images, "--method", "unknown"),
        ("learn", state, images, *QUICK, "--encoder", f"{encoder}:build"),
    )
    for arguments in refused:
        assert call(*arguments) == 2
        assert not state.exists(), capsys.readouterr().err
    state.mkdir()
    assert call(*refused[0]) == 2
    assert list(state.iterdir()) == []
    assert call("learn", state, images, *QUICK, "--quiet") == 0
    assert call("learn", state, tmp_path / "missing") == 2
    assert (state / "state.json").exists()
    assert call("predict", state, images, "--top", "1") == 0


def test_other_images_after_an_interruption_need_a_word(folder, tmp_path, capsys, monkeypatch):
    state, one, two = tmp_path / "state", folder("a", 0, 1), folder("b", 2, 3)
    broken = checkpoints.save

    def save(*given):
        broken(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save", save)
    assert call("learn", state, one, *QUICK, "--quiet") == 130
    monkeypatch.undo()
    assert call("learn", state, two, *QUICK, "--quiet") == 2
    assert "was cut off" in capsys.readouterr().err
    assert call("learn", state, two, *QUICK, "--quiet", "--discard") == 0
    assert states.read_state(state).classes == ["class 2", "class 3"]


@pytest.mark.parametrize(
    "options", [["--method", "co2l"], ["--method", "er", "--frozen", "--plugin", "none"]]
)
def test_killed_and_continued_equals_uninterrupted(options, tmp_path):
    """Real processes that kill themselves with SIGKILL; `make soak` kills them at random moments."""
    more = [*QUICK, *options, "--set", "train.epochs=6", "--save-every", "0"]
    runner = LearnRunner(processes(), tmp_path / "states", write_months(tmp_path), more)
    cuts = [
        Cut("write", 1),  # which task is learned
        Cut("step", 1),
        Cut("fsync", 2),
        Cut("step", 2, after=True),
        Cut("predictor", 1),
        Cut("predictor", 1, after=True),
        Cut("rename", 3),
        Cut("unlink", 3),
    ]
    for number, (killed, wrong) in enumerate(cut_learning(runner, cuts)):
        assert not wrong
        assert killed == (number < len(cuts))


def test_a_kill_while_files_of_a_task_are_deleted_does_no_harm(tmp_path):
    """The next task must not continue from checkpoints of the last one."""
    more = [*QUICK, "--method", "er", "--plugin", "none", "--save-every", "0"]
    runner = LearnRunner(processes(), tmp_path / "states", write_months(tmp_path), more)
    assert runner.learn("whole", 0) == 0, runner.printed
    calls = json.loads((tmp_path / "states" / "notes.json").read_text())["unlink"]
    assert runner.learn("whole", 1) == 0, runner.printed
    for number in range(3):  # the files of the first task, from the last one deleted
        shutil.rmtree(tmp_path / "states" / "cut", ignore_errors=True)
        assert runner.learn("cut", 0, Cut("unlink", calls - number)) == -signal.SIGKILL
        assert runner.learn("cut", 1) == 0, runner.printed
        assert learned(tmp_path / "states" / "cut") == learned(tmp_path / "states" / "whole")


def test_a_state_needs_no_images_to_load(folder, tmp_path):
    images, state = folder("a", 0, 1), tmp_path / "state"
    assert call("learn", state, images, *QUICK, "--quiet") == 0
    shutil.rmtree(images)
    moved = shutil.move(state, tmp_path / "elsewhere")
    start = time.process_time()
    classifier = ContinualClassifier.load(moved, quiet=True)
    assert time.process_time() - start < 3
    assert classifier.predict(np.zeros((1, 8, 8, 3), np.uint8)).tolist()[0] in ("class 0", "class 1")
    assert torch.is_inference_mode_enabled() is False
