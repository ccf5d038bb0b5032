"""Damage and leftovers in the folder of a run: each is repaired, or named in one sentence."""

import hashlib
import io
import os
import zipfile

import pytest
import torch
from tests.calling import call

from gplasc._io.display import Display
from gplasc.errors import UserError
from gplasc.learning import Callback, checkpoints
from gplasc.runs.execute import execute
from gplasc.runs.workspace import Workspace

SAME = ("weights_sha256", "memory_sha256", "matrix", "geometry", "steps")


class Stop(Callback):
    """Stops a run after a step."""

    def on_step_end(self, learner):
        if learner.position.total_steps == 7:
            raise RuntimeError("power cut")


class Notes(Display):
    """Keeps what is said."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def compute(resolved, out, **more):
    return execute(resolved, Workspace(out, device="cpu", save_steps=2), **{"display": Display()} | more)


@pytest.fixture
def cut(tiny, tmp_path):
    """The settings, the out folder and the folder of a run that was cut off between two checkpoints."""
    resolved = tiny("er", **{"train.lr": 0.05})
    out = tmp_path / "cut"
    with pytest.raises(RuntimeError):
        compute(resolved, out, callbacks=[Stop()])
    (settings,) = out.glob("*/settings.json")
    return resolved, out, settings.parent


def same(result, resolved, tmp_path) -> bool:
    whole = compute(resolved, tmp_path / "whole")
    assert {name: result.record[name] for name in SAME} == {name: whole.record[name] for name in SAME}
    return (result.folder / "terms.jsonl").read_bytes() == (whole.folder / "terms.jsonl").read_bytes()


def newest(folder):
    return sorted(folder.glob("checkpoint-*.pt"))


def test_a_log_that_is_too_short_is_noted(cut, tmp_path):
    resolved, out, folder = cut
    log = folder / "terms.jsonl"
    log.write_bytes(log.read_bytes()[:10])  # within the first line
    notes = Notes()
    result = compute(resolved, out, display=notes)
    assert [line for line in notes.said if "lacks 6 of the steps" in line]
    assert not same(result, resolved, tmp_path), "the log lacks the first steps, everything else is equal"


def test_a_log_that_is_gone_is_noted(cut, tmp_path):
    resolved, out, folder = cut
    (folder / "terms.jsonl").unlink()
    notes = Notes()
    compute(resolved, out, display=notes)
    assert [line for line in notes.said if "lacks 6 of the steps" in line]


@pytest.mark.parametrize("kind", ["folder", "pipe", "nowhere", "link"])
def test_a_log_that_is_no_file_is_a_sentence(kind, cut, tmp_path):
    resolved, out, folder = cut
    log = folder / "terms.jsonl"
    log.unlink()
    if kind == "folder":
        log.mkdir()
    elif kind == "pipe":
        os.mkfifo(log)
    else:  # nothing is written where a link leads
        (tmp_path / "precious").write_text("precious")
        log.symlink_to(tmp_path / ("precious" if kind == "link" else "nowhere"))
    with pytest.raises(UserError, match=r"terms\.jsonl"):
        compute(resolved, out)
    assert not (tmp_path / "nowhere").exists()
    assert kind != "link" or (tmp_path / "precious").read_text() == "precious"


def test_the_checkpoint_before_a_damaged_one_is_used(cut, tmp_path):
    resolved, out, folder = cut
    path = newest(folder)[-1]
    path.write_bytes(path.read_bytes()[:-100])
    notes = Notes()
    assert same(compute(resolved, out, display=notes), resolved, tmp_path)
    assert [line for line in notes.said if "is damaged; using the one before it" in line]


def test_a_checkpoint_that_unpacks_to_more_than_it_has_is_damaged(tmp_path):
    """16 MB of zeros, compressed to some kB, and the same member many times; both with a right checksum."""
    content, packed = io.BytesIO(), io.BytesIO()
    torch.save({"weight": torch.zeros(2**22)}, content)
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        for member in old.namelist():
            bomb.writestr(member, old.read(member))
    repeated = io.BytesIO(content.getvalue())
    with zipfile.ZipFile(repeated, "a") as bomb:
        bomb.filelist.append(max(bomb.filelist, key=lambda member: member.file_size))
        bomb._didModify = True
    for forgery in (packed.getvalue(), repeated.getvalue()):
        path = tmp_path / "checkpoint-1.pt"
        path.write_bytes(forgery + hashlib.sha256(forgery).digest())
        assert checkpoints.load_newest(tmp_path) == (None, [path])


def test_only_damaged_checkpoints_start_over_when_told(cut, tmp_path):
    resolved, out, folder = cut
    assert len(newest(folder)) == 2
    for path in newest(folder):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    for _ in range(2):  # the first refusal must not make the second run start over
        with pytest.raises(UserError, match=r"every checkpoint .* is damaged; start over with --restart"):
            compute(resolved, out)
    assert same(compute(resolved, out, restart=True), resolved, tmp_path)


def test_a_complete_run_starts_over_when_told(tiny, tmp_path):
    resolved = tiny("finetune")
    first = compute(resolved, tmp_path / "cut")
    (first.folder / "record.json").write_text("{}")
    with pytest.raises(UserError, match="is not the record of a run"):
        compute(resolved, tmp_path / "cut")
    assert same(compute(resolved, tmp_path / "cut", restart=True), resolved, tmp_path)


def test_restart_on_the_command_line(tiny, tmp_path, capsys):
    stream = "synthetic:tasks=2,classes=2,size=8,channels=1,train=3,test=2"
    words = ["run", "--stream", stream, "--scale", "smoke", "--method", "finetune"]
    words += ["--set", "model.encoder=small", "--out", tmp_path, "--quiet", "--json"]
    codes = []
    for more in ([], [], ["--restart"]):
        for record in tmp_path.glob("*/record.json"):
            record.write_text("{}")
        codes.append(call(*words, *more))
    assert codes == [0, 2, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {},
        lambda state: {"learner": state["learner"]},
        lambda state: state | {"learner": {}},
        lambda state: state | {"learner": state["learner"] | {"modules": {}}},
        lambda state: state | {"learner": state["learner"] | {"position": {"tusk": 1}}},
        lambda state: state | {"learner": state["learner"] | {"memory": {}}},
        lambda state: state | {"learner": state["learner"] | {"components": []}},
        lambda state: state | {"identity": 3},
    ],
)
def test_an_intact_checkpoint_with_other_keys_is_a_sentence(change, cut):
    resolved, out, folder = cut
    state, _ = checkpoints.load_newest(folder)
    checkpoints.write_state(newest(folder)[-1], change(state))
    with pytest.raises(UserError, match=r"does not fit its settings \(.*\); start over with --restart"):
        compute(resolved, out)


def test_a_checkpoint_that_is_not_a_state_counts_as_damaged(cut, tmp_path):
    """The checksum is right, but the content was not written by a run."""
    resolved, out, folder = cut
    checkpoints.write_state(newest(folder)[-1], [1, 2])
    assert same(compute(resolved, out), resolved, tmp_path)


def test_other_code_is_refused(cut, monkeypatch):
    import gplasc

    resolved, out, _ = cut
    monkeypatch.setattr(gplasc, "__version__", "99")
    with pytest.raises(UserError, match="another version of gplasc; start over with --restart"):
        compute(resolved, out)


def test_what_a_kill_left_behind_is_removed_at_the_next_start(cut, tmp_path):
    resolved, out, folder = cut
    for name in (".checkpoint-000000008.0123abcd.tmp.pt", ".record.89abcdef.tmp.json"):
        (folder / name).write_bytes(b"half of it")
    (folder / ".own").write_text("a user's file")
    assert same(compute(resolved, out), resolved, tmp_path)
    assert sorted(path.name for path in folder.glob(".*")) == [".own"]
