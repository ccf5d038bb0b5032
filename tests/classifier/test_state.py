"""State folders: whole or as before, killed and continued bit for bit, one writer, readable later."""

import hashlib
import io
import json
import os
import shutil
import signal
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.calling import call
from tests.soak.cuts import Cut, processes
from tests.soak.learning import LearnRunner, cut_learning, learned, write_months

from gplasc import ContinualClassifier
from gplasc._io.lock import locked
from gplasc.classifier import _state as states
from gplasc.classifier import estimator
from gplasc.errors import UserError
from gplasc.learning import checkpoints

from .conftest import arrays, pattern

QUICK = ["--scale", "smoke", "--encoder", "small", "--image-size", "8", "--buffer", "12", "--device", "cpu"]


@pytest.mark.parametrize("method", ["co2l", "er", "slda", "logistic"])
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
    path = folder / "state.json"
    intact = path.read_text()
    index = json.loads(intact)
    for change, said in (
        ({"format": 99}, "has the format 99, this version reads 2"),
        ({"format": 1}, "written by gplasc 0.2, .* learn its images again in a new folder"),
        ({"head": "slda"}, "checksum differs"),
    ):
        path.write_text(json.dumps({**index, **change}))
        with pytest.raises(UserError, match=said):
            ContinualClassifier.load(folder)
    path.write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        ContinualClassifier.load(folder)
    path.write_text(intact)
    for name in (index["files"]["learned"], index["rows"][0]):
        file = folder / "data" / name
        before = file.read_bytes()
        file.write_bytes(before[:-100] + b"x" * 100)
        with pytest.raises(UserError, match="is damaged"):
            ContinualClassifier.load(folder).learn(*arrays(2))
        file.write_bytes(before)


def forged(folder, change):
    """Write another index with its right checksum."""
    index = json.loads((folder / "state.json").read_text()) | change
    index.pop("sha256")
    index["sha256"] = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
    (folder / "state.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 0}, "0.2"),
        ({"config": 3}, "config"),
        ({"rows": ["../rows-00.safetensors"]}, "rows.0"),
        ({"names": ["a", 2]}, "different texts"),
        ({"tasks": []}, "tasks"),
        ({"shape": [2, 8, 8]}, "shape must be"),
        ({"parameters": {}}, "method|plugins"),
        ({"names": [0]}, "the classes must be those|does not fit"),
    ],
)
def test_an_index_with_other_values_is_refused(change, said, new, tmp_path):
    new().learn(*arrays(0, 1)).save(tmp_path)
    forged(tmp_path, change)
    with pytest.raises(UserError, match=said) as caught:
        ContinualClassifier.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_index_with_more_classes_than_outputs_is_refused(new, tmp_path):
    """A method that trains would fail only when it predicts."""
    new("er").learn(*arrays(0, 1)).save(tmp_path)
    names = json.loads((tmp_path / "state.json").read_text())["names"]
    forged(tmp_path, {"names": [*names, names[0]]})
    with pytest.raises(UserError, match="3 classes for 2 outputs"):
        ContinualClassifier.load(tmp_path)


@pytest.mark.parametrize(
    "place", ["parameters.method", "config.method", "config.plugins", "config.model", "encoder"]
)
def test_code_that_any_part_of_an_index_names_needs_permission(place, new, tmp_path):
    new("er").learn(*arrays(0, 1)).save(tmp_path / "state")
    mark, path = tmp_path / "executed", tmp_path / "mine.py"
    path.write_text(
        f"open({str(mark)!r}, 'w').close()\nfrom gplasc.methods.er import ER\nclass Mine(ER): pass\n"
    )
    index = json.loads((tmp_path / "state" / "state.json").read_text())
    section, _, name = place.rpartition(".")
    values = {"method": str(path), "plugins": [str(path)], "encoder": f"{path}:build"}
    values["model"] = index["config"]["model"] | {"encoder": f"{path}:build"}
    change = {name: values[name]}
    forged(tmp_path / "state", {section: index[section] | change} if section else change)
    with pytest.raises(UserError, match="if you trust it, add --allow-code"):
        ContinualClassifier.load(tmp_path / "state", device="cpu", quiet=True)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("y", "more"),
    [
        (3, {}),
        ([10**400] * 20, {}),
        (None, {"held_out": {}}),
        (None, {"held_out": "much"}),
        (None, {"keep_features": "10"}),
        (None, {"image_size": 8.5}),
        (None, {"buffer": "4"}),
        (None, {"seed": None}),
        (None, {"method": ["ncm"]}),
        (None, {"plugins": [3]}),
    ],
)
def test_arguments_of_other_types_are_one_sentence(y, more, new):
    x, labels = arrays(0, 1)
    with pytest.raises(UserError) as caught:
        new(**more).learn(x, labels if y is None else y)
    assert "\n" not in str(caught.value)


def put(folder, content):
    """Write other content as what was learned, with its right checksum."""
    name = f"learned-{hashlib.sha256(content).hexdigest()[:32]}.pt"
    (folder / "data" / name).write_bytes(content)
    files = json.loads((folder / "state.json").read_text())["files"]
    forged(folder, {"files": files | {"learned": name}})


def test_forged_tensors_are_refused(new, tmp_path):
    """Other keys; other objects; and 64 MB of zeros in a file of some kB."""
    new().learn(*arrays(0, 1)).save(tmp_path)
    content = io.BytesIO()
    torch.save({"weight": torch.zeros(2**24)}, content)
    packed = io.BytesIO()
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        for member in old.namelist():
            bomb.writestr(member, old.read(member))
    other = io.BytesIO()
    torch.save({"weight": torch.zeros(2, 3)}, other)
    objects = io.BytesIO()
    torch.save({"weight": Path("x")}, objects)
    for forgery, said in ((packed, "compressed"), (other, "does not fit"), (objects, "damaged")):
        put(tmp_path, forgery.getvalue())
        with pytest.raises(UserError, match=said) as caught:
            ContinualClassifier.load(tmp_path)
        assert "\n" not in str(caught.value)


def test_a_state_that_is_replaced_while_it_is_loaded_is_read_again(new, tmp_path, monkeypatch):
    """Between the index and the file it names, another process may write the next states."""
    new().learn(*arrays(0, 1)).save(tmp_path)
    read = estimator.load_model

    def late(*given):
        monkeypatch.undo()
        new().learn(*arrays(0, 1, 2)).save(tmp_path, keep=0)
        return read(*given)

    monkeypatch.setattr(estimator, "load_model", late)
    assert ContinualClassifier.load(tmp_path, quiet=True).classes_.tolist() == [0, 1, 2]


def test_a_folder_of_something_else_is_not_touched(new, tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(UserError, match="not empty and holds no classifier"):
        new().learn(*arrays(0, 1)).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# ---- gplasc learn ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["er", "slda"])
def test_an_image_is_learned_once(method, folder, tmp_path, capsys):
    """One growing folder is the normal case."""
    images, state = folder("a", 0, 1), tmp_path / "state"
    words = ["learn", state, images, *QUICK, "--method", method, "--quiet"]
    assert call(*words) == 0
    before = (state / "state.json").read_bytes()
    assert call(*words) == 0
    assert (state / "state.json").read_bytes() == before
    assert "nothing is new" in capsys.readouterr().out
    folder("a", 2)
    Image.fromarray(pattern(1, 1, size=16, channels=3, seed=7)[0]).save(images / "class 1" / "more.png")
    assert call(*words, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["images"] == 11
    assert "already learned: 20" in record["notes"]
    shutil.copy(images / "class 0" / "1.png", images / "class 2" / "same.png")
    assert call(*words) == 2
    error = capsys.readouterr().err
    assert "'class 0'" in error
    assert "'class 2'" in error


def test_files_of_the_user_are_not_deleted(folder, tmp_path):
    state = tmp_path / "state"
    assert call("learn", state, folder("a", 0, 1), *QUICK, "--quiet") == 0
    mine = [state / name for name in ("encoder-1.pt", "learned-best.pt", "data/notes.txt")]
    for path in mine:
        path.write_text("mine")
    assert call("learn", state, folder("b", 2), "--quiet", "--keep", 0) == 0
    assert all(path.read_text() == "mine" for path in mine)
    other = tmp_path / "other"
    other.mkdir()
    (other / "learned-best.pt").write_text("mine")
    assert call("learn", other, folder("c", 0), *QUICK) == 2
    assert (other / "learned-best.pt").read_text() == "mine"


def test_states_are_kept_for_rollback(folder, tmp_path, capsys):
    state = tmp_path / "state"
    seen, months = [], [[]]
    for label in range(4):
        assert (
            call(
                "learn", state, folder(f"m{label}", label), *QUICK, "--method", "ncm", "--keep", 2, "--quiet"
            )
            == 0
        )
        seen.append(ContinualClassifier.load(state, quiet=True).predict_proba(arrays(0, 1, channels=3)[0]))
        months.append(states.read_state(state).rows)
        assert months[-1][:-1] == months[-2], "the features of earlier months are not written again"
    for label in (2, 1):
        assert call("rollback", state) == 0
        found = ContinualClassifier.load(state, quiet=True).predict_proba(arrays(0, 1, channels=3)[0])
        assert np.array_equal(found, seen[label])
    capsys.readouterr()
    assert call("rollback", state) == 2
    assert "keeps no older state" in capsys.readouterr().err
    assert call("learn", state, tmp_path / "m2", "--quiet") == 0
    assert states.read_state(state).labels == ["class 0", "class 1", "class 2"]
    assert {path.name for path in (state / "data").iterdir()} == {
        name
        for path in (state / "state.json", *states.older_states(state))
        for name in states.read_state(path.parent, path.name).all_files
    }


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
    assert call("predict", state, one) == 2
    assert "was cut off; give it again to continue" in capsys.readouterr().err
    assert call("learn", state, two, *QUICK, "--quiet") == 2
    assert "was cut off" in capsys.readouterr().err
    assert call("learn", state, two, *QUICK, "--quiet", "--discard") == 0
    assert states.read_state(state).labels == ["class 2", "class 3"]


def test_other_weights_after_an_interruption_need_a_word(folder, tmp_path, capsys, monkeypatch):
    """The features of a frozen encoder in the checkpoint are of the old weights; the source of the file is the same."""
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef build():\n    made = torch.nn.Conv2d(3, 4, 3)\n"
        f"    made.load_state_dict(torch.load({str(tmp_path / 'weights.pt')!r}))\n    return made\n"
    )
    state, images = tmp_path / "state", folder("a", 0, 1)
    words = ["--method", "er", "--frozen", "--encoder", f"{tmp_path / 'net.py'}:build", "--image-size", "8"]
    words += ["--scale", "smoke", "--device", "cpu", "--quiet"]
    kept = checkpoints.save

    def save(*given):
        kept(*given)
        raise KeyboardInterrupt

    torch.save(torch.nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "weights.pt")
    monkeypatch.setattr(checkpoints, "save", save)
    assert call("learn", state, images, *words) == 130
    monkeypatch.undo()
    torch.save(torch.nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "weights.pt")
    assert call("learn", state, images, *words) == 2
    assert "was cut off" in capsys.readouterr().err
    assert call("learn", state, images, *words, "--discard") == 0


@pytest.mark.parametrize("name", ["pending", "data", "previous"])
def test_nothing_is_written_or_deleted_through_a_link(name, folder, tmp_path, capsys):
    state, outside = tmp_path / "state", tmp_path / "outside"
    assert call("learn", state, folder("a", 0, 1), *QUICK, "--method", "er", "--quiet") == 0
    if (state / name).exists():
        shutil.move(state / name, outside)
    outside.mkdir(exist_ok=True)
    for other in ("task.json", "checkpoint-000000001.pt", f"rows-{'0' * 32}.safetensors", "000009.json"):
        (outside / other).write_text("mine")
    (state / name).symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.iterdir()}
    assert call("learn", state, folder("b", 2), "--quiet", "--save-every", 0) == 2
    assert f"{state / name} is a link" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in outside.iterdir()} == before


def test_the_name_of_the_task_that_was_cut_off_may_be_no_file(folder, tmp_path):
    """Reading a pipe would wait without end."""
    state = tmp_path / "state"
    assert call("learn", state, folder("a", 0, 1), *QUICK, "--method", "er", "--quiet") == 0
    (state / "pending").mkdir()
    os.mkfifo(state / "pending" / "task.json")
    signal.alarm(20)
    assert call("learn", state, folder("b", 2), "--quiet") == 0
    signal.alarm(0)


@pytest.mark.parametrize(
    "options", [["--method", "co2l"], ["--method", "er", "--frozen"], ["--method", "logistic"]]
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
    if "logistic" in options:  # heads have neither steps nor a pending task to delete
        cuts = [cut for cut in cuts if cut.place in ("write", "fsync", "rename")]
    for number, (killed, wrong) in enumerate(cut_learning(runner, cuts)):
        assert not wrong
        assert killed == (number < len(cuts))


def test_a_kill_while_files_of_a_task_are_deleted_does_no_harm(tmp_path):
    """The next task must not continue from checkpoints of the last one."""
    more = [*QUICK, "--method", "er", "--save-every", "0"]
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
