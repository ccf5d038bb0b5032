"""From a stream's name and a few settings to a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gplasc.errors import UserError
from gplasc.streams.catalog import Request, StreamInfo, find_stream, read_dataset
from gplasc.streams.dataset import Budget, Dataset, build_stream
from gplasc.streams.stream import Stream


def open_stream(
    name: str,
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

    data_dir               a folder that holds the data set or its archive, or the archive itself; searched
                           before GPLASC_DATA and the user's cache folder
    classes_per_task       a number, or a list with one number a task; default: as in the literature
    class_order            class numbers in the order they shall appear (a part of them is allowed), or
    class_order_seed       a seed that shuffles them
    images_per_class       training images used of each class, or
    fraction               the part of them that is used
    test_images_per_class  test images used of each class; default: all
    validation             the part of the training images that is held out as `task.validation`
    image_size             width and height in pixels, where images are decoded from files
    seed                   decides which images a budget, a validation split or a split of a folder chooses
    skip_corrupt           leave undecodable images out and say so in `stream.notes`, instead of stopping
    """
    info, argument = find_stream(name)
    # Everything the caller can get wrong is checked before files are read, which may take minutes.
    train_budget = Budget(images_per_class, fraction)
    if test_images_per_class is not None and test_images_per_class < 1:
        raise UserError(f"test_images_per_class is {test_images_per_class}; it must be at least 1")
    if not 0 <= validation < 1:
        raise UserError(f"validation is {validation}; it must be at least 0 and below 1")
    if image_size is not None:
        if not info.size_is_setting and image_size != info.image_size:
            raise UserError(
                f"image_size is {image_size}, but the size of {name} is fixed; leave image_size out"
            )
        if not 4 <= image_size <= 1024:
            raise UserError(f"image_size is {image_size}; it must be from 4 to 1024")
    request = Request(
        name=info.name.partition(":")[0],
        argument=argument,
        data_dir=None if data_dir is None else Path(data_dir).expanduser(),
        image_size=(image_size or info.image_size) if info.size_is_setting else None,
        seed=seed,
        skip_corrupt=skip_corrupt,
    )
    dataset = read_dataset(info, request)
    if info.needs_download:
        dataset = _note_missing(dataset, info)
    if classes_per_task is None:
        # A data set of one's own may have fewer classes than the default task.
        count = len(class_order) if class_order is not None else len(dataset.class_names)
        classes_per_task = max(1, min(dataset.classes_per_task or info.classes_per_task, count))
    return build_stream(
        name,
        dataset,
        classes_per_task=classes_per_task,
        class_order=class_order,
        class_order_seed=class_order_seed,
        train_budget=train_budget,
        test_budget=Budget(test_images_per_class),
        validation=validation,
        seed=seed,
    )


def _note_missing(dataset: Dataset, info: StreamInfo) -> Dataset:
    """Say so when the files hold less than was published: a part may be meant, or a file may be cut short."""
    train, test = len(dataset.train.labels), len(dataset.test.labels)
    published = (info.train_images or 0) + (info.test_images or 0)
    if train + test >= published:
        return dataset
    note = f"the files hold {train:,} training and {test:,} test images, {published:,} were published"
    return replace(dataset, notes=(*dataset.notes, note))
