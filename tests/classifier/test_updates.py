"""Heads on kept features: folds, exact edits, the gate, unknown, calibration, limits of what is kept."""

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.calling import call

from gplasc import ContinualClassifier
from gplasc.classifier import Refused
from gplasc.classifier._calibration import Calibration
from gplasc.classifier._heads import cross_validate, seconds
from gplasc.classifier._rows import assign_folds
from gplasc.errors import UserError

HEADS = ("auto", "logistic", "slda", "ncm")
MEANS = np.random.default_rng(1).normal(0, 1, (9, 20))


def rows(*labels: int, count: int = 20, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Features of some classes, and their labels."""
    draw = np.random.default_rng(seed)
    return np.concatenate([draw.normal(MEANS[n], spread, (count, 20)) for n in labels]), np.repeat(
        labels, count
    )


def learned(*months, method="auto", **more) -> ContinualClassifier:
    classifier = ContinualClassifier(method, quiet=True, device="cpu", **more)
    for month in months:
        classifier.learn(*month)
    return classifier


def only(month, *labels):
    x, y = month
    return x[np.isin(y, labels)], y[np.isin(y, labels)]


def same(one: ContinualClassifier, other: ContinualClassifier) -> bool:
    x = rows(*range(9), seed=5)[0]
    return (
        one.classes_.tolist() == other.classes_.tolist()
        and np.allclose(one.predict_proba(x), other.predict_proba(x), atol=1e-6)
        and np.array_equal(one.is_unknown(x), other.is_unknown(x))
        and one.model.head == other.model.head
    )


MONTHS = [rows(0, 1, 2, seed=0), rows(3, 4, seed=1), rows(1, 5, seed=2)]


@pytest.mark.parametrize("method", HEADS)
def test_edits_give_the_classifier_that_never_saw_it(method, tmp_path):
    """After a class of one month or of two is forgotten, of two a merged one, and of another name."""
    for label in (3, 1):
        rest = [n for n in range(6) if n != label]
        whole = learned(*MONTHS, method=method)
        whole.save(tmp_path / str(label))
        loaded = ContinualClassifier.load(tmp_path / str(label), quiet=True, device="cpu")
        assert same(loaded.forget(label), learned(*(only(m, *rest) for m in MONTHS), method=method))
    joined = [(x, np.where(y == 4, 1, y)) for x, y in MONTHS]
    assert same(learned(*MONTHS, method=method).merge(1, 4), learned(*joined, method=method))
    renamed = [(x, np.where(y == 2, 8, y)) for x, y in MONTHS]
    assert same(learned(*MONTHS, method=method).rename(2, 8), learned(*renamed, method=method))
    with pytest.raises(UserError, match="classes are joined by merge"):
        learned(*MONTHS).rename(2, 1)
    with pytest.raises(UserError, match="there is no class 7"):
        learned(*MONTHS).forget(7)


def test_the_logistic_head_is_that_of_scikit_learn_on_all_features():
    classifier = learned(*MONTHS, method="logistic")
    x, y = (np.concatenate(part) for part in zip(*MONTHS, strict=True))
    unit = torch.nn.functional.normalize(torch.from_numpy(x).half().float(), dim=1).numpy()
    twin = LogisticRegression(C=10, max_iter=1000).fit(unit, y)
    test = rows(*range(6), seed=7)[0]
    test = torch.from_numpy(test).half().float().numpy()
    scores = twin.decision_function(test / np.linalg.norm(test, axis=1, keepdims=True))
    temperature = classifier.model.calibration.temperature
    expected = torch.from_numpy(scores / temperature).softmax(1).numpy()
    assert np.allclose(classifier.predict_proba(test), expected, atol=0.01)
    assert {head.name for head in learned(*MONTHS).tasks_[-1].heads} == {"logistic", "slda", "ncm"}


def test_folds_are_balanced_and_keep_twins_together():
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.normal(size=(40, 30)))
    x[1::4] = x[::4] + 0.01  # near-duplicates
    digest = torch.from_numpy(draw.integers(0, 256, (40, 16)).astype(np.uint8))
    folds = assign_folds(x, digest, torch.zeros(0, dtype=torch.int64))
    assert (folds[1::4] == folds[::4]).all()
    assert max(folds.bincount()) <= 12
    later = assign_folds(x, digest, folds[:25])
    assert torch.equal(later[:25], folds[:25])
    assert len(assign_folds(x[:1].expand(10, -1), digest[:10], later[:0]).unique()) > 1  # all the same


def test_cross_validation_never_scores_a_row_with_its_own_fold():
    x, y = (torch.from_numpy(part) for part in rows(0, 1, 2))
    fold = torch.arange(60) % 5
    scores = cross_validate("ncm", x.float(), y, fold, 3)
    changed = x.clone()
    changed[fold == 2] += 100
    again = cross_validate("ncm", changed.float(), y, fold, 3)
    assert not torch.allclose(scores[fold != 2], again[fold != 2])
    one = cross_validate("ncm", x[fold != 2].float(), y[fold != 2], fold[fold != 2], 3)
    assert one.shape == (48, 3)


def test_what_a_month_with_wrong_labels_brings_is_refused():
    """Of new classes by its own accuracy; of known ones, which damage others, too."""
    shuffle = np.random.default_rng(0).permutation
    classifier = learned(rows(0, 1, 2, 3), rows(4, 5))
    before = classifier.predict_proba(rows(0)[0])
    for x, y in (rows(6, 7, 8, seed=3), rows(0, 1, 2, 3, seed=4)):
        for limits, said in (({"min_accuracy": 0.6}, "accuracy is"), ({"max_damage": 0.0}, "damage is")):
            if "max_damage" in limits and y[0]:
                continue
            with pytest.raises(Refused, match=said) as caught:
                classifier.learn(x, shuffle(y), **limits)
            assert caught.value.record.refused
            assert np.array_equal(classifier.predict_proba(rows(0)[0]), before)
    classifier.learn(*rows(6, 7, 8, seed=3), min_accuracy=0.6, max_damage=0.1)
    figures = classifier.tasks_[-1].figures
    assert figures.before.of == figures.after.of == 120
    lost = figures.before.count - figures.after.count
    assert lost <= figures.to_new.count + figures.damage.count
    low, high = figures.accuracy.interval
    assert low < figures.accuracy.percent < high
    noted = learned(rows(0, 1, 2, 3), (rows(6, 7, 8)[0], shuffle(rows(6, 7, 8)[1])))
    assert any("WARNING" in note for note in noted.tasks_[-1].notes)


def test_the_command_refuses_with_exit_code_3_and_keeps_the_candidate(tmp_path, capsys):
    state = tmp_path / "state"
    for number, (x, y) in enumerate(
        [*MONTHS[:2], (MONTHS[2][0], np.random.default_rng(0).permutation(MONTHS[2][1]))]
    ):
        np.savez(tmp_path / f"{number}.npz", x=x.astype(np.float32), y=y)
    learn = ["learn", state, "--quiet", "--device", "cpu"]
    assert call(*learn, tmp_path / "0.npz", "--reject", "0.05") == 0
    more = ["--min-accuracy", "40%", "--max-damage", "30%", "--reject", "5%"]
    assert call(*learn, tmp_path / "1.npz", *more) == 0
    assert call(*learn, tmp_path / "1.npz", "--reject", "6%") == 2
    intact = (state / "state.json").read_bytes()
    assert call(*learn, tmp_path / "2.npz", "--max-damage", "0.1%", "--dry-run") == 3
    assert not (state / "candidate.json").exists()
    capsys.readouterr()
    assert call(*learn, tmp_path / "2.npz", "--min-accuracy", "99%", "--max-damage", "0.1%", "--json") == 3
    facts = json.loads(capsys.readouterr().out)
    assert facts["refused"]
    assert any("finer than one image" in note for note in facts["notes"])
    assert (state / "state.json").read_bytes() == intact
    assert (state / "candidate.json").exists()
    assert call("report", state, "--out", tmp_path / "page.html") == 0
    assert "Refused: accuracy is" in (tmp_path / "page.html").read_text()
    assert call("evaluate", state, tmp_path / "0.npz", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"]["percent"] > 90
    assert call("forget", state, 3) == 0
    assert "older states and any refused update are deleted" in capsys.readouterr().out
    assert {path.name for path in state.iterdir()} == {"state.json", "data", "previous", "lock"}
    assert not list((state / "previous").iterdir())
    assert call("learn", state, tmp_path / "0.npz", "--min-accuracy", "2") == 2


def test_unknown_and_calibrated():
    """The threshold rejects the stated share of known rows, and rows of other classes more often."""
    for reject in (0.05, 0.2):
        classifier = learned(rows(0, 1, 2, 3, count=60), rows(4, 5, count=60, seed=1), reject=reject)
        known = classifier.is_unknown(rows(*range(6), count=80, seed=2)[0]).mean()
        other = classifier.is_unknown(np.random.default_rng(0).normal(0, 4, (200, 20))).mean()
        assert abs(known - reject) < 0.06
        assert other > known + 0.1
    assert not learned(rows(0, 1), reject=0.0).is_unknown(100 * rows(5)[0]).any()
    assert classifier.model.calibration.calibration_error < 10
    x, y = rows(*range(6), count=80, seed=3)
    gap = classifier.predict_proba(x).max(1).mean() - classifier.score(x, y)
    assert abs(gap) < 0.1


def test_the_temperature_minimizes_the_cross_entropy():
    draw = torch.Generator().manual_seed(0)
    scores = 7 * torch.randn(400, 5, generator=draw)
    y = torch.distributions.Categorical(logits=scores / 3).sample()
    found = Calibration.of(scores, None, y, 0.05).temperature
    losses = {t: torch.nn.functional.cross_entropy(scores / t, y) for t in (0.9 * found, found, 1.1 * found)}
    assert min(losses, key=losses.get) == found


@pytest.mark.parametrize("method", ["ncm", "auto"])
def test_sums_in_place_of_features(method):
    """ncm forgets exactly; slda cannot, and says so."""
    whole = learned(*MONTHS, method=method, keep_features=0)
    everything = learned(*MONTHS, method="slda" if method == "auto" else method)
    x = rows(*range(6), seed=4)[0]
    assert np.array_equal(whole.predict(x), everything.predict(x))
    assert whole.model.kept["features"] == 0
    assert whole.tasks_[-1].figures is None
    assert not whole.is_unknown(100 * x).any()
    if method == "ncm":
        never = learned(*(only(m, 0, 1, 2, 4, 5) for m in MONTHS), method="ncm", keep_features=0)
        assert np.allclose(whole.forget(3).predict_proba(x), never.predict_proba(x), atol=1e-5)
    else:
        with pytest.raises(UserError, match="cannot forget a class"):
            whole.forget(3)


def test_features_of_so_many_images_are_kept():
    """Which ones does not depend on the order of the months."""
    few = learned(*MONTHS, keep_features=8)
    assert few.model.rows.y[few.model.rows.kept].bincount().tolist() == [8] * 6
    assert "48 of 140 images" in " ".join(few.tasks_[-1].notes)
    assert few.learn(*MONTHS[0]).model.kept["digests"] == 140
    other = learned(MONTHS[2], MONTHS[0], MONTHS[1], keep_features=8)
    kept = [{bytes(d) for d in c.model.rows.digest[c.model.rows.kept].numpy()} for c in (few, other)]
    assert kept[0] == kept[1]


def test_heads_that_would_take_too_long_are_left_out(monkeypatch):
    assert seconds("logistic", 5000, 100, 1280) < 40 < seconds("logistic", 50_000, 1000, 1280)
    assert seconds("slda", 50_000, 1000, 1280) + seconds("ncm", 50_000, 1000, 1280) < 40
    monkeypatch.setattr("gplasc.classifier._heads._SECONDS", 1e-6)
    record = learned(*MONTHS).tasks_[-1]
    assert sum(head.right is None for head in record.heads) == 2
    assert "left out: it would take about" in str(record)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.full((4, 20), np.nan), "NaN"),
        (np.full((4, 20), 1e6), "divide all of them"),
        (np.zeros((4, 21)), "expecting 20 features"),
        (np.zeros((4, 8, 8, 3), np.uint8), "X has"),
    ],
)
def test_other_features_are_refused(x, said):
    classifier = learned(MONTHS[0])
    with pytest.raises(UserError, match=said):
        classifier.learn(x, [0] * len(x))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((1, 3 * 10**8), np.uint8), "y": [0]}, "unpack to 300 MB, which is refused"),
        ({"x": np.array([None]), "y": [0]}, "it holds pickled objects"),
        ({"y": [0]}, "has no array 'x'"),
    ],
)
def test_features_are_read_from_files_as_arrays_of_streams_are(arrays, said, tmp_path):
    """A file of 300 kB would take 300 MB."""
    path = tmp_path / "features.npz"
    np.savez_compressed(path, **arrays)
    with pytest.raises(UserError, match=said):
        learned(MONTHS[0]).learn(path)
    with pytest.raises(UserError, match=said):
        learned(MONTHS[0]).predict(path)
