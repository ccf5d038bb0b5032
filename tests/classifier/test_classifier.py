"""Learning task by task: new classes, known classes, any method, any input."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from gplasc import ContinualClassifier, ForeignEncoder
from gplasc.classifier._pipeline import fit_square
from gplasc.classifier._state import read_state
from gplasc.errors import UserError
from gplasc.learning import Learner
from gplasc.settings.components import list_methods

from .conftest import arrays, pattern

EASY = ("ncm", "slda", "logistic")


@pytest.mark.parametrize("method", EASY)
def test_learns_new_classes_and_keeps_the_old(method, new):
    classifier = new(method)
    for labels in ((4, 0), (2,), (7, 1)):
        classifier.learn(*arrays(*labels))
    assert classifier.classes_.tolist() == [0, 1, 2, 4, 7]
    assert classifier.score(*arrays(0, 1, 2, 4, 7, seed=1)) == 1.0
    assert [record.new_classes for record in classifier.tasks_] == [(4, 0), (2,), (7, 1)]
    figures = classifier.tasks_[-1].figures
    assert min(figures.before.percent, figures.after.percent) > 90


def test_the_order_of_tasks_does_not_matter_without_training(new):
    for method in EASY:
        one, other = new(method, held_out=0.0), new(method, held_out=0.0)
        for labels in ((0, 1), (2, 3)):
            one.learn(*arrays(*labels))
        for labels in ((2, 3), (0, 1)):
            other.learn(*arrays(*labels))
        x, _ = arrays(0, 1, 2, 3, seed=1)
        assert np.allclose(one.predict_proba(x), other.predict_proba(x), atol=0.02)


@pytest.mark.parametrize("plugins", [(), ("gplasc",)], ids=["alone", "gplasc"])
@pytest.mark.parametrize("method", [name for name in list_methods() if name not in ("joint", "ncm", "slda")])
def test_every_method_learns_known_classes_too(method, plugins, new):
    """New classes; new and known ones; known ones alone; a single image of a new class."""
    classifier = new(method, plugins)
    for labels in ((0, 1), (2, 0), (1, 2)):
        classifier.learn(*arrays(*labels, seed=len(labels) + labels[0]))
    classifier.learn(pattern(3, 1), [3])
    found = classifier.predict_proba(arrays(0, 1, 2, 3)[0])
    assert found.shape == (40, 4)
    assert np.isfinite(found).all()
    assert np.allclose(found.sum(1), 1, atol=1e-5)
    assert len(classifier.model.learner.ctx.memory) <= 12


def test_joint_training_is_refused(new):
    with pytest.raises(UserError, match="needs the images of all tasks"):
        new("joint").learn(*arrays(0, 1))


def test_memory_and_files_do_not_grow_with_history(new, tmp_path):
    classifier = new("er", buffer=8)
    sizes = []
    for task in range(5):
        classifier.learn(*arrays(0, 1, seed=task))
        classifier.save(tmp_path / "state")
        name = read_state(tmp_path / "state").files["learned"]
        sizes.append((tmp_path / "state" / "data" / name).stat().st_size)
    assert max(sizes[1:]) - min(sizes[1:]) < 2000
    assert classifier.model.kept["rows of the memory"] == 8
    assert classifier.model.kept["held-out images"] <= 8


def test_more_tasks_than_the_feature_space_has_directions(new):
    """The plug-in adds directions as tasks arrive and moves none; when the space is full, later tasks have none."""
    encoder = ForeignEncoder(nn.Conv2d(1, 10, 3), mean=(0.5,), std=(0.5,))
    classifier = new("finetune", ("gplasc",), encoder=encoder, held_out=0.0)
    seen = []
    for task in range(12):
        classifier.learn(pattern(task % 9, 4, seed=task), [task] * 4)
        seen.append(classifier.model.learner.ctx.modules["gplasc"].vertices.clone())
    for before, after in itertools.pairwise(seen):
        assert torch.equal(after[: len(before)], before)
    assert [len(vertices) for vertices in seen] == [8] * 8 + [10] * 4
    assert len(classifier.classes_) == 12


# ---- inputs ------------------------------------------------------------------------------------------------------


def test_every_kind_of_input_gives_the_same(new, tmp_path):
    x, y = arrays(0, 1, channels=3)
    for image, label, number in zip(x, y, range(len(y)), strict=True):
        (tmp_path / "data" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "data" / str(label) / f"{number:03}.png")
    expected = new(held_out=0.0).learn(x, y).predict_proba(x)
    first = torch.from_numpy(x).permute(0, 3, 1, 2)
    for given in (
        (first, torch.from_numpy(y)),
        (list(zip(x, y, strict=True)),),
        (iter(list(zip(first, y, strict=True))),),
        (((Image.fromarray(image), int(label)) for image, label in zip(x, y, strict=True)),),
    ):
        classifier = new(held_out=0.0).learn(*given)
        assert np.array_equal(classifier.predict_proba(x), expected)
    from_files = new(held_out=0.0, image_size=8).learn(tmp_path / "data")
    assert from_files.classes_.tolist() == ["0", "1"]
    assert np.allclose(from_files.predict_proba(tmp_path / "data"), expected, atol=1e-6)
    one_by_one = [from_files.predict_proba(path)[0] for path in sorted((tmp_path / "data").rglob("*.png"))]
    assert np.allclose(one_by_one, expected, atol=1e-5)


def test_images_of_other_sizes_and_gray_ones_are_fitted(new):
    """Gray images count as ones with three equal channels; resizing agrees with Pillow's to a gray level."""
    x, y = arrays(0, 1, channels=3, size=12)
    gray = np.repeat(x[..., :1], 3, axis=3)
    classifier = new().learn(gray, y)
    assert np.allclose(classifier.predict_proba(x[..., :1]), classifier.predict_proba(gray), atol=1e-6)
    large = pattern(1, 1, size=50, channels=3)[0, :30]
    ours = fit_square(torch.from_numpy(large).permute(2, 0, 1).unsqueeze(0), 12)[0].permute(1, 2, 0).numpy()
    twin = np.asarray(Image.fromarray(large[:, 10:40]).resize((12, 12), Image.Resampling.BILINEAR))
    assert np.abs(ours - twin).max() <= 1
    assert classifier.predict_proba(large[None]).shape == (1, 2)


def wrong(new, x, y, tmp_path):
    """What is refused, and a part of the sentence."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "no images" / "class").mkdir(parents=True)
    (tmp_path / "damaged" / "class").mkdir(parents=True)
    (tmp_path / "damaged" / "class" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")

    def fails():
        yield x[0], 0
        raise OSError("disk full")

    class Short:
        def __len__(self):
            return 5

        def __iter__(self):
            return iter([(x[0], 0)])

    return [
        ((x.astype(float), y), "float values from 0 to"),
        ((x[:, :, 0, 0].astype(float), y), "features were given"),
        ((x[0, 0, 0], y), "shape"),
        ((np.zeros((4, 8, 8, 2), np.uint8), [0] * 4), "1 .gray. or 3"),
        ((np.zeros((2, 0, 0, 3), np.uint8), [0, 1]), "at least one pixel"),
        ((np.concatenate([x, x], axis=3)[..., :1].repeat(3, 3), y), "convert them to gray"),
        ((x, y[:-1]), "one label for each image"),
        ((x, None), "y is missing"),
        ((x[:0], y[:0]), "no images"),
        ((x, ["a"] * len(x)), "labels so far are numbers"),
        ((x[:2], ["", "b"]), "empty"),
        ((x[:2], [0.5, 1]), "neither a name nor a whole number"),
        ((x[[0, 0]], [0, 1]), "the same image has the labels"),
        ((tmp_path / "nowhere",), "does not exist"),
        ((tmp_path / "empty",), "no class folders"),
        ((tmp_path / "no images",), "has no images"),
        ((tmp_path / "damaged",), "cannot be decoded"),
        ((tmp_path / "empty", y), "leave y out"),
        ((fails(),), "ended after 1 images with OSError: disk full"),
        ((Short(),), "ended after 1 of 5 images"),
        (([1, 2],), "no pair"),
        ((5,), "give an array of images"),
    ]


def test_what_is_wrong_is_refused_and_nothing_changes(new, tmp_path):
    x, y = arrays(0, 1)
    classifier = new("er").learn(x, y)
    before = classifier.predict_proba(x)
    for given, sentence in wrong(new, x, y, tmp_path):
        with pytest.raises(UserError, match=sentence):
            classifier.learn(*given)
        assert np.array_equal(classifier.predict_proba(x), before)
        assert len(classifier.tasks_) == 1


def test_a_task_that_fails_half_way_leaves_the_classifier_as_it_was(new, monkeypatch):
    classifier, other = (
        new("er", **{"train.lr": 0.05, "train.batch": 5}).learn(*arrays(0, 1)) for _ in range(2)
    )
    step, calls = Learner.step, []

    def fail(learner, batch):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return step(learner, batch)

    monkeypatch.setattr(Learner, "step", fail)
    with pytest.raises(RuntimeError):
        classifier.learn(*arrays(2, 3))
    monkeypatch.undo()
    assert classifier.classes_.tolist() == [0, 1]
    x, _ = arrays(0, 1, 2, 3)
    for _ in range(2):
        assert np.array_equal(classifier.predict_proba(x), other.predict_proba(x))
        classifier.learn(*arrays(2, 3))
        other.learn(*arrays(2, 3))


def test_predictions_during_learning_come_from_the_old_state(new, monkeypatch):
    for method in ("er", "slda"):
        classifier = new(method).learn(*arrays(0, 1))
        x, _ = arrays(0, 1, 2)
        before, seen, learned = classifier.predict_proba(x), [], type(classifier.model)._learn

        def learn(model, *given, classifier=classifier, x=x, seen=seen, learned=learned):
            figures = learned(model, *given)
            with ThreadPoolExecutor() as pool:
                seen.append((pool.submit(classifier.predict_proba, x).result(), classifier.classes_.tolist()))
            return figures

        with monkeypatch.context() as patched:
            patched.setattr(type(classifier.model), "_learn", learn)
            classifier.learn(*arrays(2))
        ((during, classes),) = seen
        assert np.array_equal(during, before)
        assert classes == [0, 1]
        assert classifier.classes_.tolist() == [0, 1, 2]


def test_images_that_cannot_be_decoded_can_be_left_out(new, folder):
    images = folder("a", 0, 1)
    (images / "class 0" / "bad.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="cannot be decoded"):
        new(image_size=8).learn(images)
    classifier = new(image_size=8, held_out=0.0).learn(images, skip_corrupt=True)
    assert classifier.tasks_[0].images == 20
    assert "cannot be decoded and left out: class 0/bad.png" in classifier.tasks_[0].notes


def test_an_image_size_is_at_least_one(new, folder):
    with pytest.raises(UserError, match="image_size is 0"):
        new(image_size=0).learn(folder("a", 0))


def test_repeated_images_count_once(new):
    x, y = arrays(0, 1)
    classifier = new(held_out=0.0).learn(np.concatenate([x, x[:3]]), np.concatenate([y, y[:3]]))
    assert classifier.tasks_[0].images == 20
    assert "repeated images left out: 3" in classifier.tasks_[0].notes


def test_strange_labels_are_kept(new, tmp_path):
    names = ["a/b", "naïve \u202e", "x\ny", "'; drop table", "日本"]
    x, y = arrays(0, 1, 2, 3, 4)
    classifier = new().learn(x, [names[label] for label in y])
    classifier.save(tmp_path / "state")
    again = ContinualClassifier.load(tmp_path / "state", quiet=True)
    assert again.classes_.tolist() == sorted(names)
    assert again.predict(x[:1]).tolist() == names[:1]


def test_held_out_images_are_not_learned(new):
    """Their number follows from the share; heads learn every image."""
    for method, held in (("er", 6), ("ncm", 0)):
        classifier = new(method, held_out=0.3).learn(*arrays(0, 1, count=10))
        assert classifier.model.kept.get("held-out images", 0) == held
        assert classifier.tasks_[0].images == 20


def test_prediction_takes_milliseconds(new):
    classifier = new().learn(*arrays(0, 1))
    x, _ = arrays(0, 1)
    classifier.predict(x[:1])
    times = []
    for _ in range(10):
        start = time.process_time()
        classifier.predict(x[:1])
        times.append(time.process_time() - start)
    assert min(times) < 0.02
