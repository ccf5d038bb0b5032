"""Streams from data sets in memory: objects with ``len`` and ``[]`` that return (image, label), as torchvision's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gplasc.errors import UserError
from gplasc.streams.arrays import dataset_of_images
from gplasc.streams.dataset import Budget, build_stream
from gplasc.streams.decode import as_image
from gplasc.streams.stream import Stream


class _LabeledImages(Protocol):
    """What torchvision's data sets have in common."""

    def __len__(self) -> int:
        """The number of samples."""

    def __getitem__(self, index: int, /) -> Any:
        """Return an image and a label, as a pair or under the keys "image" (or "img") and "label"."""


def from_dataset(
    train: _LabeledImages,
    test: _LabeledImages,
    *,
    name: str = "dataset",
    classes_per_task: int | Sequence[int] = 2,
    class_order: Sequence[int] | None = None,
    class_order_seed: int | None = None,
    images_per_class: int | None = None,
    validation: float = 0.0,
    image_size: int | None = None,
    class_names: Sequence[str] | None = None,
    seed: int = 0,
) -> Stream:
    """Make a stream of two data sets in the style of torchvision or of Hugging Face's ``datasets``.

    All images are read once and kept in memory as uint8. Leave out transforms that augment or normalize: the library
    does both, on whole batches.

    Args:
        train: Returns (image, label), or a dict with both, for an index; the image is a PIL image, or a
            uint8 array or tensor of shape (H, W), (H, W, C) or (C, H, W) with 1 or 3 channels.
        test: The same for the test split.
        name: The name of the stream in records.
        classes_per_task: A number, or one number for each task.
        class_order: Class numbers in the order in which they appear.
        class_order_seed: A seed that shuffles the classes instead.
        images_per_class: Training images used of each class; default: all.
        validation: The part of the training images that is held out as ``task.validation``.
        image_size: Width and height; default: that of the images, which must then agree.
        class_names: The names in the order of the sorted labels; default: ``train.classes``, the names of
            a Hugging Face ``ClassLabel``, or the labels.
        seed: Decides which images a budget or a validation split chooses.

    Returns:
        The stream, for ``gplasc.run(stream, ...)``.

    Raises:
        UserError: If an image or a label is not of an allowed kind.
    """
    splits = [
        _items(part, f"{name}, {split} split", image_size)
        for part, split in ((train, "training"), (test, "test"))
    ]
    names = class_names or getattr(train, "classes", None) or _class_label_names(train, splits[0][1])
    return build_stream(
        name,
        dataset_of_images(splits, names, name),
        classes_per_task=classes_per_task,
        class_order=class_order,
        class_order_seed=class_order_seed,
        budget=Budget(images_per_class, validation=validation),
        seed=seed,
    )


def _class_label_names(train: _LabeledImages, labels: NDArray[Any]) -> list[str] | None:
    """The names that a Hugging Face data set has for the labels that occur; None if it has none."""
    features = getattr(train, "features", None)
    names = getattr(features["label"], "names", None) if features and "label" in features else None
    return [names[label] for label in np.unique(labels)] if names else None


def _items(part: _LabeledImages, name: str, size: int | None) -> tuple[list[Tensor], NDArray[np.int64]]:
    images, labels = [], []
    for index in range(len(part)):
        item = part[index]
        if isinstance(item, Mapping):
            item = (item.get("image", item.get("img")), item.get("label"))
        try:
            image, label = item
            labels.append(int(label))
        except (TypeError, ValueError):
            raise UserError(
                f"{name}: item {index} is a {type(item).__name__}; an image and an integer label are needed, as a pair "
                'or under the keys "image" and "label"'
            ) from None
        images.append(as_image(image, f"{name}: image {index}", size))
    return images, np.array(labels, np.int64)
