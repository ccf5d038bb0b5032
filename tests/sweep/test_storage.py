"""Checkpoints in a storage with an fsspec address, without a cluster."""

import pickle
import sys

import pytest

from gplasc.errors import UserError
from gplasc.study._storage import Storage


@pytest.fixture(params=["file", "memory"])
def address(request, tmp_path):
    return (tmp_path / "storage").as_uri() if request.param == "file" else f"memory://{tmp_path.name}"


def write(folder, **contents):
    """Write files into the folder of a run; the names of checkpoints are their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (folder / name_of(name)).write_text(text)
    return folder


def name_of(name):
    return "terms.jsonl" if name == "terms" else f"checkpoint-{int(name[1:]):09d}.pt"


def read(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_run_continues_in_another_folder_with_its_last_two_checkpoints(address, tmp_path):
    storage = pickle.loads(pickle.dumps(Storage(address)))
    storage.check()
    one, two = tmp_path / "one" / "run", tmp_path / "two" / "run"
    storage.fetch(two)
    assert not two.exists()
    for number, terms in ((1, "a"), (2, "ab"), (3, "abc")):
        write(one, terms=terms, **{f"c{number}": f"state {number}"})
        (one / name_of(f"c{number - 2}")).unlink(missing_ok=True)  # as `checkpoints.save` does
        storage.keep(one / name_of(f"c{number}"))
    storage.fetch(two)
    assert read(two) == {name_of("terms"): "abc", name_of("c2"): "state 2", name_of("c3"): "state 3"}
    storage.delete("run")
    storage.delete("run")
    storage.fetch(three := tmp_path / "three" / "run")
    assert not three.exists()


def test_a_folder_that_is_further_stays_as_it_is(address, tmp_path):
    storage = Storage(address)
    storage.keep(write(tmp_path / "one" / "run", c1="state 1", terms="a") / name_of("c1"))
    ahead = write(tmp_path / "two" / "run", c2="state 2", terms="ab")
    storage.fetch(ahead)
    assert read(ahead) == {name_of("c2"): "state 2", name_of("terms"): "ab"}


def test_runs_are_kept_apart(address, tmp_path):
    storage = Storage(address)
    for run in ("one", "two"):
        storage.keep(write(tmp_path / run, c1=run) / name_of("c1"))
    storage.delete("one")
    storage.fetch(tmp_path / "elsewhere" / "two")
    assert read(tmp_path / "elsewhere" / "two") == {name_of("c1"): "two"}


def test_a_storage_that_fails_does_not_stop_the_run_but_is_not_taken_for_empty(tmp_path, capsys):
    folder = write(tmp_path / "run", c1="state 1")
    (tmp_path / "file").write_text("")  # a folder cannot be made here
    storage = Storage(str(tmp_path / "file"))
    storage.keep(folder / name_of("c1"))
    assert "the checkpoint was not copied to" in capsys.readouterr().out
    with pytest.raises(UserError, match="cannot be written"):
        storage.check()
    reached = Storage(str(tmp_path / "storage"))
    reached.keep(folder / name_of("c1"))
    (tmp_path / "other").write_text("")
    with pytest.raises(UserError, match="checkpoints of the run run cannot be read from"):
        reached.fetch(tmp_path / "other" / "run")


@pytest.mark.parametrize("address", ["nowhere://bucket", "s3://bucket"])
def test_an_address_that_cannot_be_used_is_refused(address, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed
    with pytest.raises(UserError, match=f"--storage {address} cannot be used: "):
        Storage(address)
