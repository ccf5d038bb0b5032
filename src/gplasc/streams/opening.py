"""From a stream's name and a few settings to a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import length_hint
from pathlib import Path

import torch

from gplasc._io.reading import readable
from gplasc._io.text import printable
from gplasc.errors import UserError
from gplasc.streams._cache import decode
from gplasc.streams.catalog import new_request, stream_name
from gplasc.streams.dataset import Budget, build_stream, check_image_size
from gplasc.streams.files import ArrayFiles, Dataset, ImageFiles, Split
from gplasc.streams.info import Request
from gplasc.streams.stream import Stream


def open_stream(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    classes_per_task: int | Sequence[int] | None = None,
    class_order: Sequence[int] | None = None,
    class_order_seed: int | None = None,
    images_per_class: int | None = None,
    fraction: float | None = None,
    test_images_per_class: int | None = None,
    validation: float = 0.0,
    image_size: int | None = None,
    seed: int = 0,
    skip_corrupt: bool = False,
) -> Stream:
    """Open a stream by name; `gplasc.streams.list_streams()` tells which there are.

    Args:
        name: A stream's name, or a `pathlib.Path` of a folder with one folder for each class or of an npz file.
        data_dir: A folder that holds the data set or its archive, or the archive itself; searched before
            GPLASC_DATA and the user's cache folder.
        classes_per_task: A number, or a list with one number for each task; default: as in the literature.
        class_order: Class numbers in the order in which they appear (a part of them is allowed).
        class_order_seed: A seed that shuffles the classes instead.
        images_per_class: Training images used of each class.
        fraction: The part of the training images that is used instead.
        test_images_per_class: Test images used of each class; default: all.
        validation: The part of the training images that is held out as `task.validation`.
        image_size: Width and height in pixels, where images are decoded from files.
        seed: Decides which images a budget, a validation split or a split of a folder chooses.
        skip_corrupt: Leave undecodable images out and say so in `stream.notes`, instead of stopping.

    Raises:
        UserError: If a setting is not allowed, or files are missing, damaged or refused.
    """
    request = new_request(name, data_dir, image_size=image_size, seed=seed, skip_corrupt=skip_corrupt)
    info = request.info
    # Settings are checked before files are read, which may take minutes.
    budget = Budget(images_per_class, fraction, test_images_per_class, validation)
    if image_size not in (None, info.image_size) and not info.size_is_setting:
        raise UserError(f"image_size is {image_size}, but the size of {name} is fixed; leave image_size out")
    check_image_size(image_size)
    dataset = _read(request)
    if classes_per_task is None:
        # A data set of one's own may have fewer classes than the default task.
        count = length_hint(dataset.class_names if class_order is None else class_order, 1)
        classes_per_task = max(1, min(dataset.classes_per_task or info.classes_per_task, count))
    return build_stream(
        stream_name(name),
        dataset,
        classes_per_task=classes_per_task,
        class_order=class_order,
        class_order_seed=class_order_seed,
        budget=budget,
        seed=seed,
    )


def _read(request: Request) -> Dataset:
    with readable(request.info.name):
        files = request.info.read(request)
        dataset = files.load() if isinstance(files, ArrayFiles) else _decode(files, request)
    notes, train, test = dataset.notes, len(dataset.train.labels), len(dataset.test.labels)
    published = (request.info.train_images or 0) + (request.info.test_images or 0)
    # A part may be meant, or a file may be cut short.
    if request.info.needs_download and train + test < published:
        held = f"{train:,} training and {test:,} test images"
        notes += (f"the files hold {held}, {published:,} were published",)
    names = tuple(printable(name, lines=False) for name in dataset.class_names)
    return replace(dataset, class_names=names, notes=notes)


def _decode(files: ImageFiles, request: Request) -> Dataset:
    info = request.info
    assert request.image_size is not None  # it has a default
    images, kept, skipped = decode(info.kind, files, request.image_size, skip_corrupt=request.skip_corrupt)
    labels = torch.tensor([label for _, label, _ in files.images], dtype=torch.int64)[kept]
    is_test = torch.tensor([is_test for _, _, is_test in files.images], dtype=torch.bool)[kept]
    train, test = (Split(images, labels[mask], mask.nonzero().squeeze(1)) for mask in (~is_test, is_test))
    notes = files.notes
    if skipped:
        shown = ", ".join(printable(name, lines=False) for name in skipped[:5]) + ", ..." * (len(skipped) > 5)
        notes += (f"skipped {len(skipped)} images that cannot be decoded: {shown}",)
    return Dataset(train, test, files.class_names, info.mean, info.std, notes)
