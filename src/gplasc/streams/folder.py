"""folder:PATH: the user's own images, a folder for each class; with train/ and test/, or split by a seed."""

from __future__ import annotations

from pathlib import Path

import torch

from gplasc.errors import UserError
from gplasc.streams.cache import decode, list_images
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset, Split
from gplasc.streams.filesplit import split_names
from gplasc.streams.imagelist import ImageList, splits_of

TEST_FRACTION = 0.2
_TEST_NAMES = ("test", "val", "valid", "validation")
# Photographs of any kind: the constants of ImageNet.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read(request: Request) -> Dataset:
    """Classes are the folders' names, sorted."""
    root = Path(request.argument).expanduser()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{root} {what}; write folder:PATH with a folder that has one folder for each class")
    held_out = next((root / name for name in _TEST_NAMES if (root / name).is_dir()), None)
    if (root / "train").is_dir() and held_out is not None:
        return _with_test_folder(request, root, root / "train", held_out)
    return _with_seeded_split(request, root)


def _with_test_folder(request: Request, root: Path, train: Path, test: Path) -> Dataset:
    classes = _classes(train)
    unknown = sorted(set(_classes(test)) - set(classes))
    if unknown:
        raise UserError(
            f"{test / unknown[0]} has no counterpart in {train}; both need the same class folders"
        )
    parts = [
        [
            (f"{part.name}/{name}/{file}", number)
            for number, name in enumerate(classes)
            for file in (list_images(part / name) if (part / name).is_dir() else [])
        ]
        for part in (train, test)
    ]
    images = ImageList.of(*parts)
    assert request.image_size is not None
    decoded = decode(
        "folder", root, images.files, request.image_size, skip_corrupt=request.skip_corrupt, upright=True
    )
    train_split, test_split = splits_of(images, decoded)
    return Dataset(train_split, test_split, tuple(classes), _MEAN, _STD, decoded.notes)


def _with_seeded_split(request: Request, root: Path) -> Dataset:
    """Decode in an order that does not depend on the seed, so that another seed needs no new decoding."""
    classes = _classes(root)
    files: list[str] = []
    labels: list[int] = []
    test_names: set[str] = set()
    for number, name in enumerate(classes):
        own = [f"{name}/{file}" for file in list_images(root / name)]
        if len(own) < 2:
            raise UserError(
                f"{root / name} has {len(own)} images, but a class needs two, one of them for testing"
            )
        test_names.update(split_names(own, fraction=TEST_FRACTION, seed=request.seed)[1])
        files += own
        labels += [number] * len(own)
    assert request.image_size is not None
    decoded = decode(
        "folder", root, files, request.image_size, skip_corrupt=request.skip_corrupt, upright=True
    )
    kept_labels = torch.tensor(labels)[decoded.kept]
    is_test = torch.tensor([files[number] in test_names for number in decoded.kept.tolist()])
    train, test = (
        Split(decoded.images, kept_labels[chosen], rows=chosen.nonzero().squeeze(1))
        for chosen in (~is_test, is_test)
    )
    return Dataset(train, test, tuple(classes), _MEAN, _STD, decoded.notes)


def _classes(root: Path) -> list[str]:
    classes = sorted(
        entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
    if len(classes) < 2:
        raise UserError(
            f"{root} has {len(classes)} class folders, at least two are needed: {root}/CLASS/IMAGE.jpg"
        )
    return classes
