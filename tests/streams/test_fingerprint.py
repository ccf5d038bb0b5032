"""The digest of a stream's data: it changes with the data, and with nothing else."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import pytest
import torch

from gplasc.errors import UserError
from gplasc.streams import Budget, Dataset, Split, _fingerprint, build_stream, fingerprint, open_stream

from .conftest import picture, pixels

OFFICIAL = {
    "cifar10_python": "seq-cifar10",
    "cifar10_binary": "seq-cifar10",
    "cifar100_python": "seq-cifar100",
    "idx": "seq-mnist",
    "tiny": "seq-tinyimagenet",
    "cub": "cub200",
    "imagenet": "imagenet-r",
}


@pytest.mark.parametrize("layout", OFFICIAL)
def test_copies_are_equal_and_every_file_counts(imitate, layout, tmp_path, monkeypatch):
    name, folder = OFFICIAL[layout], getattr(imitate, layout)()
    first = fingerprint(name, data_dir=imitate.root)
    assert re.fullmatch("[0-9a-f]{64}", first)
    copy = tmp_path / "copy" / folder.name
    shutil.copytree(folder, copy)
    assert fingerprint(name, data_dir=copy.parent) == first
    # Every file that is read counts: those that a reader opens when the stream is opened.
    opened = []
    original = os.open

    def watched(path, *arguments, **named):
        if str(path).startswith(str(copy)):
            opened.append(path)
        return original(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", watched)
        size = {} if name.startswith(("seq-c", "seq-m")) else {"image_size": 8, "classes_per_task": 2}
        open_stream(name, data_dir=copy.parent, **size)
    # A list of files counts by what it says of them: the order of classes, the split.
    edits = {
        "train_test_split.txt": (b"1 0\n", b"1 1\n"),
        "wnids.txt": (b"n90000000\nn89999999", b"n89999999\nn90000000"),
    }
    files = [path for path in set(opened) if path.suffix != ".txt" or path.name in edits]
    assert len(files) >= 3
    seen = {first}
    for path in files:
        kept = path.read_bytes()
        edited = path.name in edits
        path.write_bytes(kept.replace(*edits[path.name], 1) if edited else kept[:-1] + bytes([kept[-1] ^ 1]))
        seen.add(fingerprint(name, data_dir=copy.parent))
        path.write_bytes(kept)
    assert len(seen) == 1 + len(files)
    assert fingerprint(name, data_dir=copy.parent) == first


def test_an_archive_counts_by_what_it_holds(imitate):
    folder = imitate.cifar10_binary()
    first = fingerprint("seq-cifar10", data_dir=imitate.root)
    assert first == fingerprint("seq-cifar10", data_dir=imitate.tar(folder, "cifar-10-binary.tar.gz"))
    imitate.cifar10_binary(per_batch=30)
    assert fingerprint("seq-cifar10", data_dir=imitate.root) != first


def test_npz(imitate, tmp_path):
    path = imitate.npz()
    first = fingerprint(f"npz:{path}")
    assert fingerprint(path) == first
    shutil.copy(path, tmp_path / "other.npz")
    assert fingerprint(tmp_path / "other.npz") == first
    imitate.npz(x_train=pixels(12, 8, 8, seed=5))
    assert fingerprint(path) != first


def test_folders(imitate, tmp_path):
    root = imitate.folder()
    seen = [fingerprint(root)]
    shutil.copytree(root, tmp_path / "elsewhere")
    assert fingerprint(tmp_path / "elsewhere") == seen[0]
    (root / "class0" / "notes.txt").write_text("not an image")
    assert fingerprint(root) == seen[0]
    picture(root / "class0" / "more.png", 8, 8, seed=1)
    seen.append(fingerprint(root))
    picture(root / "class0" / "more.png", 8, 8, seed=2)
    seen.append(fingerprint(root))
    (root / "class0" / "more.png").rename(root / "class1" / "more.png")
    seen.append(fingerprint(root))
    for number in range(2):
        picture(root / "class9" / f"{number}.png", 8, 8, seed=number)
    seen.append(fingerprint(root))
    (root / "class9").rename(root / "class8")
    seen.append(fingerprint(root))
    assert len(set(seen)) == 6


def small_stream(**changes):
    x = torch.arange(96, dtype=torch.uint8).view(6, 1, 4, 4)
    train, test = Split(x, torch.tensor([0, 1, 2, 0, 1, 2])), Split(x[:3], torch.tensor([0, 1, 2]))
    parts = {"train": train, "test": test, "class_names": ("a", "b", "c"), "mean": (0.5,), "std": (0.5,)}
    named = {key: changes.pop(key) for key in list(changes) if key not in parts}
    return build_stream(named.pop("name", "mine"), Dataset(**parts | changes), classes_per_task=1, **named)


def test_stream_objects():
    first = fingerprint(small_stream())
    assert fingerprint(small_stream(name="another name")) == first
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    pixel = torch.arange(96, dtype=torch.uint8).view(6, 1, 4, 4).clone()
    pixel[5, 0, 3, 3] += 1
    others = [
        small_stream(train=Split(pixel, labels)),
        small_stream(train=Split(torch.arange(96, dtype=torch.uint8).view(6, 1, 4, 4), labels.flip(0))),
        small_stream(class_names=("a", "b", "d")),
        small_stream(mean=(0.4,)),
        small_stream(std=(0.4,)),
        small_stream(class_order=[1, 0, 2]),
        small_stream(budget=Budget(validation=0.5)),
        small_stream()[:2],
    ]
    assert len({first, *map(fingerprint, others)}) == 9


def test_stream_objects_from_files_and_in_memory_are_equal(imitate):
    root = imitate.folder()
    mapped = open_stream(root, image_size=8)

    def whole(part):
        tasks = [getattr(task, part) for task in mapped]
        return Split(torch.cat([task.x for task in tasks]), torch.cat([task.y for task in tasks]))

    dataset = Dataset(whole("train"), whole("test"), mapped.class_names, mapped.mean, mapped.std)
    memory = build_stream("x", dataset, classes_per_task=2)
    assert fingerprint(memory) == fingerprint(mapped)
    assert fingerprint(mapped) != fingerprint(open_stream(root, image_size=12))


def test_streams_without_files():
    names = ["seq-digits", "synthetic", "synthetic:tasks=5", "synthetic:tasks=6"]
    assert len({fingerprint(name) for name in names}) == 4
    assert fingerprint("seq-digits") == fingerprint("seq-digits")


def test_files_are_read_once(imitate, monkeypatch):
    root = imitate.folder()
    path = imitate.npz()
    kept = [fingerprint(source) for source in (root, path)]
    with monkeypatch.context() as patch:
        patch.setattr(_fingerprint, "open_regular", lambda _: pytest.fail("read twice"))
        assert [fingerprint(source) for source in (root, path)] == kept
    np.savez(path, x=pixels(8, 4, 4), y=np.arange(8) % 2)
    assert fingerprint(path) != kept[1]


@pytest.mark.parametrize("damage", [b"", b"xyz", b"\xff" * 64])
def test_a_damaged_note_is_made_again(imitate, damage):
    path = imitate.npz()
    first = fingerprint(path)
    (note,) = (_fingerprint.cache_folder() / "fingerprints").iterdir()
    note.write_bytes(damage)
    assert fingerprint(path) == first
    assert note.read_text() == first


def test_a_file_that_changes_while_it_is_read_is_not_noted(imitate, monkeypatch):
    path = imitate.npz()
    original = _fingerprint.open_regular

    def changing(name):
        with path.open("ab") as file:
            file.write(b"x")
        return original(name)

    monkeypatch.setattr(_fingerprint, "open_regular", changing)
    fingerprint(path)
    assert not (_fingerprint.cache_folder() / "fingerprints").exists()


def test_a_cache_that_cannot_be_written_is_no_error(imitate, tmp_path, monkeypatch):
    first = fingerprint(imitate.npz())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "file"))
    assert fingerprint(imitate.root / "mine.npz") == first


def test_mistakes_are_one_sentence(tmp_path):
    for source in ("seq-cifar10", f"folder:{tmp_path / 'nothing'}", tmp_path / "nothing.npz", 3, "nothing"):
        with pytest.raises(UserError):
            fingerprint(source)
