"""Arrays of images and labels in the layouts that Python programs exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gplasc.errors import UserError
from gplasc.streams.dataset import Dataset, Split


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
    x, x_test = (
        torch.stack([image.expand(channels, -1, -1) for image in images]) for images, _ in (train, test)
    )
    planes = [x[:, channel].numpy() for channel in range(channels)]
    return labeled_dataset(
        (x, train[1]),
        (x_test, test[1]),
        class_names,
        normalization=([plane.mean() / 255 for plane in planes], [plane.std() / 255 for plane in planes]),
        name=name,
    )


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
        raise UserError(
            f"{name}: {len(names)} class names were given for {len(values)} classes; they must agree"
        )
    mean, std = normalization
    return Dataset(
        Split(x_train, torch.from_numpy(np.searchsorted(values, y_train))),
        Split(x_test, torch.from_numpy(np.searchsorted(values, y_test))),
        tuple(
            text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else str(text)
            for text in names
        ),
        mean=tuple(round(float(value), 4) for value in mean),
        # Not below what one gray level makes, or a constant channel would be divided by zero.
        std=tuple(max(round(float(value), 4), 1 / 255) for value in std),
    )
