"""Cutting a data set into tasks, against slow and obvious twins."""

import pickle
import sys
from pathlib import Path

import pytest
import torch

from gplasc.errors import UserError
from gplasc.streams import (
    Dataset,
    Split,
    build_stream,
    catalog,
    fingerprint,
    list_streams,
    open_stream,
    sources,
)
from gplasc.streams.dataset import Budget

from .conftest import picture


def numbered(per_class=(6, 5, 7, 4), test_per_class=3, order_seed=0):
    """A data set whose every image is its own number in all pixels, so that rows can be recognized."""
    labels = torch.cat([torch.full((count,), number) for number, count in enumerate(per_class)])
    shuffle = torch.randperm(len(labels), generator=torch.Generator().manual_seed(order_seed))
    labels = labels[shuffle]
    test_labels = torch.arange(len(per_class)).repeat(test_per_class)

    def images(first, count):
        return (torch.arange(first, first + count).to(torch.uint8))[:, None, None, None].repeat(1, 1, 2, 2)

    return Dataset(
        Split(images(0, len(labels)), labels),
        Split(images(100, len(test_labels)), test_labels),
        tuple("abcdefgh"[: len(per_class)]),
        (0.5,),
        (0.5,),
    )


def rows(samples):
    return samples.x[:, 0, 0, 0].tolist()


def test_tasks_equal_a_slow_selection():
    dataset = numbered()
    order = [2, 0, 3, 1]
    stream = build_stream("n", dataset, classes_per_task=2, class_order=order)
    assert len(stream) == 2
    assert stream.class_names == ("c", "a", "d", "b")
    assert stream.num_classes == 4
    assert stream.image_shape == (1, 2, 2)
    for index, task in enumerate(stream):
        assert task.index == index
        assert task.classes == range(2 * index, 2 * index + 2)
        assert task.class_names == stream.class_names[2 * index : 2 * index + 2]
        for split, samples in ((dataset.train, task.train), (dataset.test, task.test)):
            expected = [
                (int(split.images[row, 0, 0, 0]), label)
                for label in task.classes
                for row in range(len(split.labels))
                if split.labels[row] == order[label]
            ]
            assert list(zip(rows(samples), samples.y.tolist(), strict=True)) == expected
        assert task.validation is None
        assert task.train.x.dtype == torch.uint8
        assert task.train.y.dtype == torch.int64


def test_slices_count_labels_from_zero_again():
    stream = build_stream("n", numbered(), classes_per_task=1)
    part = stream[1:3]
    assert len(part) == 2
    assert part.class_names == ("b", "c")
    assert [task.index for task in part] == [0, 1]
    assert part[1].classes == range(1, 2)
    assert part[1].train.y.unique().tolist() == [1]
    assert rows(part[1].train) == rows(stream[2].train)
    assert stream[-1].class_names == ("d",)
    assert [task.class_names for task in stream[::-1]] == [("d",), ("c",), ("b",), ("a",)]
    assert len(stream[:0]) == 0
    with pytest.raises(IndexError):
        stream[4]


def test_task_sizes_may_differ_and_a_rest_makes_a_small_task():
    dataset = numbered()
    assert build_stream("n", dataset, classes_per_task=[1, 3]).classes_per_task == (1, 3)
    assert build_stream("n", dataset, classes_per_task=3).classes_per_task == (3, 1)
    assert build_stream("n", dataset, classes_per_task=1, class_order=[3, 1]).class_names == ("d", "b")


def test_class_order_seed_permutes_and_repeats():
    orders = {
        seed: build_stream("n", numbered((2,) * 8), classes_per_task=2, class_order_seed=seed).class_names
        for seed in (0, 1, 2)
    }
    again = build_stream("n", numbered((2,) * 8), classes_per_task=2, class_order_seed=1)
    assert orders[1] == again.class_names
    assert len(set(orders.values())) == 3
    assert all(sorted(order) == list("abcdefgh") for order in orders.values())


def test_budgets_are_nested_and_independent_of_the_class_order():
    dataset = numbered((20, 20, 20, 20))

    def kept(count, **settings):
        stream = build_stream("n", dataset, classes_per_task=2, budget=Budget(count), **settings)
        return {row for task in stream for row in rows(task.train)}

    assert len(kept(5)) == 20
    assert kept(5) < kept(9)
    assert kept(5) == kept(5, class_order=[3, 1, 0, 2])
    assert kept(5) == kept(5)
    assert kept(5) != kept(5, seed=1)
    assert len(kept(99)) == 80
    stream = build_stream("n", dataset, classes_per_task=2, budget=Budget(fraction=0.25))
    assert [len(task.train) for task in stream] == [10, 10]
    assert [len(task.test) for task in stream] == [6, 6]
    stream = build_stream("n", dataset, classes_per_task=2, budget=Budget(test_images_per_class=1))
    assert [len(task.train) for task in stream] == [40, 40]
    assert [len(task.test) for task in stream] == [2, 2]


def test_validation_comes_from_train_and_never_from_test():
    dataset = numbered((10, 10, 10, 10))
    whole = build_stream("n", dataset, classes_per_task=2)
    stream = build_stream("n", dataset, classes_per_task=2, budget=Budget(validation=0.3))
    for task, before in zip(stream, whole, strict=True):
        assert len(task.validation) == 6
        assert task.validation.y.bincount(minlength=4)[list(task.classes)].tolist() == [3, 3]
        assert not set(rows(task.validation)) & set(rows(task.train))
        assert set(rows(task.validation)) | set(rows(task.train)) == set(rows(before.train))
        assert rows(task.test) == rows(before.test)
    small = build_stream("n", dataset, classes_per_task=2, budget=Budget(2, validation=0.01))
    assert [(len(task.train), len(task.validation)) for task in small] == [(2, 2), (2, 2)]


def test_a_stream_survives_pickling():
    stream = build_stream("n", numbered(), classes_per_task=2)
    held = stream[1]
    again = pickle.loads(pickle.dumps(stream))
    assert rows(again[1].train) == rows(held.train)
    assert stream[1] is held


def test_take_copies():
    samples = build_stream("n", numbered(), classes_per_task=2)[0].train
    taken = samples.take(torch.tensor([3, 0, 3]))
    assert rows(taken) == [rows(samples)[i] for i in (3, 0, 3)]
    assert taken.y.tolist() == [int(samples.y[i]) for i in (3, 0, 3)]
    before = rows(samples)
    taken.x.zero_()
    assert rows(samples) == before
    assert len(samples.take(samples.y == 0)) == int((samples.y == 0).sum())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"classes_per_task": 0}, "classes_per_task is 0"),
        ({"classes_per_task": 9}, "from 1 to 8"),
        ({"classes_per_task": [4, 3]}, "add up to 8"),
        ({"classes_per_task": [9, -1]}, "positive"),
        ({"class_order": [0, 0, 1]}, "at most once"),
        ({"class_order": [0, 8]}, "from 0 to 7"),
        ({"class_order": []}, "class_order"),
        ({"class_order": [0, 1], "class_order_seed": 1}, "give one of them"),
        ({"images_per_class": 0}, "at least 1"),
        ({"images_per_class": 2, "fraction": 0.5}, "give one of them"),
        ({"fraction": 0.0}, "above 0"),
        ({"fraction": 1.5}, "at most 1"),
        ({"test_images_per_class": 0}, "at least 1"),
        ({"validation": 1.0}, "below 1"),
        ({"validation": -0.1}, "at least 0"),
        ({"image_size": 32}, "fixed"),
        ({"images_per_class": "5"}, "whole number"),
        ({"test_images_per_class": 1.5}, "whole number"),
        ({"fraction": "0.1"}, "a number above 0"),
        ({"validation": "0.1"}, "a number, at least 0"),
        ({"class_order": 5}, "class_order is 5"),
        ({"class_order": ["a", 1.5]}, "class_order"),
        ({"classes_per_task": "2"}, "classes_per_task is '2'"),
        ({"image_size": "16"}, "image_size is 16"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(settings, words):
    with pytest.raises(UserError, match=words) as caught:
        open_stream("synthetic", **settings)
    assert "\n" not in str(caught.value)


def test_unknown_names_get_the_nearest_one():
    with pytest.raises(UserError, match="did you mean 'seq-cifar10'"):
        open_stream("seq-cifar-10")
    with pytest.raises(UserError, match="did you mean 'cub200'"):
        open_stream("cub")
    with pytest.raises(UserError, match="lacks a path"):
        open_stream("folder:")
    with pytest.raises(UserError, match="nothing after a colon"):
        open_stream("seq-digits:3")


def test_digits_are_embedded_with_a_fixed_split():
    stream = open_stream("seq-digits")
    assert stream.class_names == tuple("0123456789")
    assert stream.image_shape == (1, 8, 8)
    assert sum(len(task.train) for task in stream) == 1297
    assert [len(task.test) for task in stream] == [100] * 5
    x = torch.cat([task.train.x for task in stream])
    assert (int(x.min()), int(x.max())) == (0, 255)
    scaled = x.double() / 255
    assert scaled.mean().item() == pytest.approx(stream.mean[0], abs=1e-4)
    assert scaled.std().item() == pytest.approx(stream.std[0], abs=1e-4)
    other = open_stream("seq-digits", seed=5)
    assert all(torch.equal(a.test.x, b.test.x) for a, b in zip(stream, other, strict=True))


def test_synthetic_is_reproducible_learnable_and_of_any_shape():
    stream = open_stream("synthetic:tasks=3,classes=4,size=12,channels=1,train=9,test=5")
    assert (len(stream), stream.num_classes, stream.image_shape) == (3, 12, (1, 12, 12))
    assert [(len(task.train), len(task.test)) for task in stream] == [(36, 20)] * 3
    for a, b in zip(open_stream("synthetic"), open_stream("synthetic"), strict=True):
        assert torch.equal(a.train.x, b.train.x)
    other = open_stream("synthetic:seed=1")
    stream = open_stream("synthetic")
    assert not torch.equal(other[0].train.x, stream[0].train.x)
    train = torch.cat([task.train.x for task in stream]).flatten(1).float()
    labels = torch.cat([task.train.y for task in stream])
    centers = torch.stack([train[labels == label].mean(0) for label in range(8)])
    for task in stream:
        nearest = torch.cdist(task.test.x.flatten(1).float(), centers).argmin(1)
        assert (nearest == task.test.y).float().mean() > 0.9


@pytest.mark.parametrize("text", ["task=3", "tasks=0", "tasks=x", "size=2", "tasks", "tasks=1.5", "tasks=-1"])
def test_wrong_synthetic_settings(text):
    with pytest.raises(UserError, match="synthetic"):
        open_stream(f"synthetic:{text}")


def test_the_catalog_is_complete():
    given = ("folder:PATH", "npz:PATH", "parquet:PATH", "features:PATH", "synthetic")
    small = ("seq-digits", "seq-mnist", "seq-fashion", "seq-cifar10", "seq-cifar100", "seq-tinyimagenet")
    names = {info.name for info in list_streams()}
    assert names == {*small, "cub200", "imagenet-r", "imagenet-a", *given}
    assert all(info.description and info.shape for info in list_streams())


def test_a_new_data_set_is_one_file(tmp_path, monkeypatch):
    """The example of the documentation, as a file of its own: it is listed, opened and has a fingerprint."""
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    code = text.partition("```py\n")[2].partition("```")[0]
    imports = (
        "from __future__ import annotations\n"
        "from gplasc.streams.files import ImageFiles, list_folders, list_images\n"
        "from gplasc.streams.info import Layout, Request, StreamInfo\n"
        "from gplasc.streams.locate import locate\n"
    )
    (tmp_path / "birds.py").write_text(imports + code)
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    catalog._streams.cache_clear()
    try:
        for split, seed in (("train", 0), ("test", 50)):
            for number in range(6):
                name = f"bird{number % 2}/{number}.png"
                picture(tmp_path / "my-birds" / split / name, 9, 9, seed=seed + number)
        assert "my-birds" in {info.name for info in list_streams()}
        stream = open_stream("my-birds", data_dir=tmp_path, image_size=8)
        assert stream.class_names == ("bird0", "bird1")
        assert (len(stream[0].train), len(stream[0].test)) == (6, 6)
        assert stream.mean == (0.49, 0.48, 0.45)
        assert len(fingerprint("my-birds", data_dir=tmp_path)) == 64
    finally:
        catalog._streams.cache_clear()
        sys.modules.pop("gplasc.streams.sources.birds", None)
