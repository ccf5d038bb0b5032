"""The default classifier on three months of birds, against all features kept and logistic regression; its growth.

    python benchmarks/classifier.py birds --data-dir DIR --images 10 30
    python benchmarks/classifier.py growth --classes 10 100 1000

`birds` computes the features of 56 species of CUB-200 (kept in the file --cache), learns 24 of them in three months of
eight, and prints, in percent: accuracy on up to 30 other images of each species; that of scikit-learn's
LogisticRegression(C=10) on the features of all months; known images called unknown, CIFAR-10 images and other birds
recognized as unknown; confidence minus accuracy for the first two months and the last; seconds of processor time a
month; and what months with shuffled labels bring. `growth` learns random features, the last class alone.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from gplasc import ContinualClassifier
from gplasc.classifier import Refused
from gplasc.classifier._intake import iterate_inputs
from gplasc.streams import open_stream

_SPECIES = 56


def encode(root: Path, data_dir: Path) -> dict[str, np.ndarray]:
    """Return features and species of birds, features of CIFAR-10 images, and seconds an image."""
    species = sorted(root.iterdir())[:_SPECIES]
    files = [file for place in species for file in sorted(place.iterdir())]
    encoder = ContinualClassifier("ncm", quiet=True, device="cpu").learn(files[:2], ["a", "b"])
    far = open_stream("seq-cifar10", data_dir=data_dir)[0].test.take(torch.arange(500)).x

    def features(images):
        parts = iterate_inputs(images, 64, encoder.model.options.shape)
        with torch.inference_mode():
            return torch.cat([encoder.pipeline.features(part) for part in parts]).numpy()

    start = time.process_time()
    x = features(files)
    seconds = (time.process_time() - start) / len(files)
    y = np.array([species.index(file.parent) for file in files])
    return {"x": x, "y": y, "far": features(far), "seconds": np.array(seconds)}


def shuffled(classifier: ContinualClassifier, x: np.ndarray, y: np.ndarray) -> str:
    """Return what a month with shuffled labels would bring."""
    try:
        classifier.learn(x, np.random.default_rng(0).permutation(y), min_accuracy=0.3, max_damage=0.1)
    except Refused as error:
        figures = error.record.figures
        return f"refused, own {figures.accuracy.percent:.1f}, damage {figures.damage.percent:.1f}"
    return "NOT REFUSED"


def birds(data: dict[str, np.ndarray], images: int, first: int) -> None:
    x, y = data["x"], data["y"]
    rank = np.concatenate([np.arange(count) for count in np.bincount(y)])
    months = [range(first + 8 * month, first + 8 * month + 8) for month in range(3)]

    def rows(species, start, stop):
        return np.isin(y, species) & (rank >= start) & (rank < stop)

    classifier, seconds = ContinualClassifier(quiet=True, device="cpu"), []
    for month in months:
        now = rows(month, 0, images)
        bad = shuffled(classifier, x[now], y[now]) if month == months[-1] else ""
        start = time.process_time()
        classifier.learn(x[now], y[now], min_accuracy=0.3, max_damage=0.1)
        seconds.append(time.process_time() - start + now.sum() * float(data["seconds"]))
    good = classifier.tasks_[-1].figures
    more = rows(months[0], images, images + 20)
    known = shuffled(classifier, x[more], y[more])

    test, train = (
        rows(range(first, first + 24), images, images + 30),
        rows(range(first, first + 24), 0, images),
    )
    probabilities = classifier.predict_proba(x[test])
    right = classifier.classes_[probabilities.argmax(1)] == y[test]
    gap, last = 100 * (probabilities.max(1) - right), np.isin(y[test], months[2])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    twin = LogisticRegression(C=10, max_iter=1000).fit(unit[train], y[train]).score(unit[test], y[test])
    near = rows(range(48, _SPECIES), 0, 60)
    unknown = [100 * classifier.is_unknown(part).mean() for part in (x[test], data["far"], x[near])]

    # A class that is forgotten leaves what a classifier has that never saw it.
    forgotten = classifier.forget(first + 3).predict_proba(x[test])
    never = ContinualClassifier(quiet=True, device="cpu")
    for month in months:
        now = rows([label for label in month if label != first + 3], 0, images)
        never.learn(x[now], y[now])
    print(
        f"species {first + 1} to {first + 24}, {images} images: {100 * right.mean():.1f} "
        f"({classifier.tasks_[-1].head}), scikit-learn {100 * twin:.1f}, of {test.sum()}\n"
        f"  called unknown: known {unknown[0]:.1f}, CIFAR-10 {unknown[1]:.1f}, other birds {unknown[2]:.1f}\n"
        f"  confidence minus accuracy: first months {gap[~last].mean():.1f}, last {gap[last].mean():.1f}; "
        f"seconds a month {max(seconds):.0f}\n"
        f"  last month: own {good.accuracy.percent:.1f}, flips to new {good.to_new.percent:.1f}, damage "
        f"{good.damage.percent:.1f}; shuffled: {bad}; shuffled images of known species: {known}\n"
        f"  forget differs by {np.abs(forgotten - never.predict_proba(x[test])).max():.1e} in a probability",
        flush=True,
    )


def growth(classes: int, images: int = 50, dim: int = 1280) -> None:
    draw = np.random.default_rng(0)
    means = draw.normal(size=(classes, dim)).astype(np.float32)
    x = means.repeat(images, 0) + 3 * draw.normal(size=(classes * images, dim)).astype(np.float32)
    y = np.arange(classes).repeat(images)
    first = (classes - 1) * images
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        ContinualClassifier(quiet=True, device="cpu").learn(x[:first], y[:first]).save(state)
        start = time.process_time()
        classifier = ContinualClassifier.load(state, device="cpu", quiet=True)
        loaded = time.process_time() - start
        classifier.learn(x[first:], y[first:]).save(state)
        learned = time.process_time() - start
        size = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
    start = time.process_time()
    classifier.predict(x[:1000])
    predicted = time.process_time() - start
    heads = " ".join(head.name for head in classifier.tasks_[-1].heads if head.right is not None)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"class {classes}: learn {learned:.1f} s (load {loaded:.1f}), heads {heads}; predict {predicted:.2f} ms from "
        f"features; {size / 1e6:.0f} MB on disk; {memory:.1f} GB of memory with the benchmark's",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("birds", "growth"))
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--cache", type=Path, default=Path("birds.npz"))
    parser.add_argument("--images", type=int, nargs="+", default=[10, 30])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    given = parser.parse_args()
    torch.set_num_threads(1)
    for classes in given.classes if given.what == "growth" else ():
        growth(classes)
    if given.what == "birds":
        if not given.cache.exists():
            np.savez(given.cache, **encode(given.data_dir / "CUB_200_2011" / "images", given.data_dir))
        data = dict(np.load(given.cache))
        for images in given.images:
            for first in (0, 24):
                birds(data, images, first)


if __name__ == "__main__":
    main()
