"""Images and labels in memory: arrays in the layouts that Python programs exchange, and data sets as torchvision's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gplasc.errors import UserError
from gplasc.streams.dataset import Budget, build_stream, check_image_size
from gplasc.streams.files import Dataset, Split
from gplasc.streams.stream import Stream

MOST_BYTES = 4 * 2**30  # of images that are kept in memory at their own size


def as_images(data: Any, name: str) -> Tensor:
    """Return images as uint8 (N, C, H, W) on the CPU, without a copy where that is possible.

    They are uint8 from numpy, torch or nested lists: (N, H, W), (N, H, W, C) or (N, C, H, W), C being 1 or 3; if both
    axes could be the channels, the last one is. `name` says what they are, for messages.
    """
    if not isinstance(data, Tensor):
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise UserError(f"{name} cannot be read as an array ({error}); give images as uint8") from None
        if data.dtype == np.uint8:
            data = torch.from_numpy(np.require(data, requirements=["C", "W"]))
    if data.dtype != torch.uint8:
        raise UserError(f"{name} has the type {data.dtype}; give images as uint8, with values from 0 to 255")
    if data.is_meta or data.layout is not torch.strided:
        raise UserError(f"{name} is a {data.layout} tensor on {data.device}; give a dense one with content")
    x: Tensor = data.cpu()
    if x.ndim == 3:
        x = x.unsqueeze(1)
    elif x.ndim == 4 and x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3) or 0 in x.shape[2:]:
        raise UserError(
            f"{name} has the shape {tuple(data.shape)}; images are N x H x W, N x H x W x C or N x C x H x W, "
            "with 1 (gray) or 3 channels and at least one pixel"
        )
    return x


def dataset_of_images(
    splits: Iterable[tuple[Sequence[Tensor], NDArray[Any]]], class_names: Sequence[str] | None, name: str
) -> Dataset:
    """Stack images (1 or 3, H, W) of one size, repeat gray ones if others have color, and measure the normalization.

    The splits are those for training and for test, with labels (N,), numbers or text.
    """
    train, test = splits
    every = [*train[0], *test[0]]
    sizes = sorted({tuple(image.shape[1:]) for image in every})
    if not train[0] or not test[0]:
        raise UserError(f"{name} has no images for {'testing' if train[0] else 'training'}; give some")
    if len(sizes) > 1:
        raise UserError(
            f"{name} has images of {len(sizes)} sizes, for example {sizes[0]} and {sizes[-1]}; "
            "give images of one size, or set image_size to resize them"
        )
    channels = max(map(len, every))
    x, x_test = (torch.stack([one.expand(channels, -1, -1) for one in split[0]]) for split in (train, test))
    planes = [x[:, channel].numpy() for channel in range(channels)]
    measured = [plane.mean() / 255 for plane in planes], [plane.std() / 255 for plane in planes]
    stacked = (x, train[1]), (x_test, test[1])
    return labeled_dataset(*stacked, class_names, normalization=measured, name=name)


def labeled_dataset(
    train: tuple[Tensor, NDArray[Any]],
    test: tuple[Tensor, NDArray[Any]],
    class_names: Sequence[str | bytes] | None,
    *,
    normalization: tuple[Iterable[float], Iterable[float]],
    name: str,
) -> Dataset:
    """Number the classes in the order of their sorted labels (N,), numbers or text, of images (N, C, H, W).

    `class_names` has one name for each label that occurs; None: the labels. `normalization` is mean and standard
    deviation of each channel.
    """
    (x_train, y_train), (x_test, y_test) = train, test
    if x_train.shape[1:] != x_test.shape[1:]:
        raise UserError(
            f"{name}: training images have the shape {tuple(x_train.shape[1:])}, test images "
            f"{tuple(x_test.shape[1:])}; they must be equal"
        )
    values = np.unique(y_train)
    if len(values) < 2 or not np.isin(y_test, values).all():
        raise UserError(
            f"{name} has {len(values)} classes with training images, and {len(np.unique(y_test))} with test images; "
            "at least two classes are needed, and training images of each"
        )
    names = values.tolist() if class_names is None else class_names
    if len(names) != len(values):
        raise UserError(f"{name}: {len(names)} class names were given for {len(values)} classes")
    texts = (text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text for text in names)
    mean, std = normalization
    return Dataset(
        Split(x_train, torch.from_numpy(np.searchsorted(values, y_train))),
        Split(x_test, torch.from_numpy(np.searchsorted(values, y_test))),
        tuple(map(str, texts)),
        mean=tuple(round(float(value), 4) for value in mean),
        # Not below what one gray level makes, or a constant channel would be divided by zero.
        std=tuple(max(round(float(value), 4), 1 / 255) for value in std),
    )


def from_dataset(
    train: Any,
    test: Any,
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
    """Make a stream, for ``gplasc.run(stream, ...)``, of two data sets as torchvision or Hugging Face has them.

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

    Raises:
        UserError: If an image or a label is not of an allowed kind.
    """
    check_image_size(image_size)
    parts = {f"{name}, training split": train, f"{name}, test split": test}
    splits = [_items(part, title, image_size) for title, part in parts.items()]
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


def _class_label_names(train: Any, labels: NDArray[Any]) -> list[str] | None:
    """The names that a Hugging Face data set has for the labels that occur; None if it has none."""
    names = getattr((getattr(train, "features", None) or {}).get("label"), "names", None)
    return [names[label] for label in np.unique(labels)] if names else None


def _items(part: Any, name: str, size: int | None) -> tuple[list[Tensor], NDArray[np.int64]]:
    from gplasc.streams.decode import as_image

    if not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
        raise UserError(f"{name} is a {type(part).__name__} without len() or []; give a data set with both")
    images, labels, total = [], [], 0
    for index in range(len(part)):
        item = part[index]
        if isinstance(item, Mapping):
            item = (item.get("image", item.get("img")), item.get("label"))
        try:
            image, label = item
            labels.append(np.int64(int(label)))
        except (TypeError, ValueError, OverflowError):
            raise UserError(
                f"{name}: item {index} is a {type(item).__name__}; an image and a label of 64 bits are needed, "
                'as a pair or under the keys "image" and "label"'
            ) from None
        images.append(as_image(image, f"{name}: image {index}", size))
        total += images[-1].nbytes
        if size is None and total > MOST_BYTES:
            raise UserError(
                f"{name}: the first {index + 1} images take more than {MOST_BYTES >> 30} GB; make them smaller with "
                "image_size, or give image files as folder:PATH, which are kept on disk"
            )
    return images, np.array(labels, np.int64)
