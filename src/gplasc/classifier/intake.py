"""What a user may give as images and labels, checked where it enters."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gplasc._io.text import printable
from gplasc.classifier.pipeline import resize
from gplasc.errors import UserError
from gplasc.streams.arrays import as_images
from gplasc.streams.decode import as_image, read_image
from gplasc.streams.files import list_folders, list_images

Label = str | int


@dataclass(frozen=True)
class LabeledImages:
    """Images of one shape, (N, C, size, size) uint8, and the label of each."""

    x: Tensor
    labels: tuple[Label, ...]
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, size, size)."""
        _, channels, height, width = self.x.shape
        return channels, height, width

    @property
    def digest(self) -> str:
        """A digest of images and labels."""
        total = hashlib.sha256(repr((self.labels, tuple(self.x.shape))).encode("utf-8", "surrogatepass"))
        total.update(self.x.contiguous().numpy().data)
        return total.hexdigest()


def read_labeled(
    data: Any, labels: Any, *, channels: int | None, size: int | None, skip_corrupt: bool = False
) -> LabeledImages:
    """Read images with their labels.

    Args:
        data: An array of images, a folder with one folder for each class, or an iterable of (image, label).
        labels: One label for each image of an array; None otherwise.
        channels: The number of channels that images must have; None: that of the first.
        size: Width and height that images are resized to; None: those of the first, if it is square.
        skip_corrupt: Whether to leave out files of a folder that cannot be decoded.

    Raises:
        UserError: If something that was given is not allowed.
    """
    skipped: list[str] = []
    if isinstance(data, (str, Path)):
        if labels is not None:
            raise UserError("y was given with a folder, whose folders are the labels; leave y out")
        pairs: Iterable[tuple[Tensor, Label]] = _from_folder(Path(data), skipped if skip_corrupt else None)
    elif isinstance(data, (np.ndarray, Tensor)) or labels is not None:
        pairs = _from_arrays(data, labels)
    else:
        pairs = _from_iterable(data)
    labeled = _collect(pairs, channels, size)
    if not skipped:
        return labeled
    more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    return replace(labeled, notes=(*labeled.notes, f"cannot be decoded and left out: {skipped[0]}{more}"))


def as_labels(values: Any) -> list[Label]:
    """Return labels as text or whole numbers.

    Raises:
        UserError: If one is neither.
    """
    return [_as_label(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]


def _as_label(value: object) -> Label:
    if isinstance(value, str):
        if not value.strip():
            raise UserError("a label is empty; give every class a name or a number")
        return str(value)
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and float(value).is_integer()
    ):
        return int(value)
    raise UserError(f"the label {value!r} is neither a name nor a whole number")


def fit(x: Tensor, channels: int, size: int) -> Tensor:
    """Return images (N, C, H, W) as float32 of this size, with so many channels: gray ones are repeated.

    Raises:
        UserError: If images have color and the classifier learned gray ones.
    """
    if x.shape[1] not in (1, channels):
        raise UserError(
            f"images have {x.shape[1]} channels, but the first ones that were learned had {channels}; "
            "convert them to gray"
        )
    return resize(x.expand(-1, channels, -1, -1), size)


def list_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return image files: those named, and all below the folders named.

    Raises:
        UserError: If a path does not exist, or a folder has no images.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = [path / name for name in list_images(path)]
            if not inside:
                raise UserError(f"there are no images in {path}; name image files or folders of them")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise UserError(f"{path} does not exist; name image files or folders of them")
    return files


def _from_folder(root: Path, skipped: list[str] | None) -> Iterator[tuple[Tensor, Label]]:
    """Yield the images of a folder with their labels; files that cannot be decoded are added to `skipped` if given."""
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{root} {what}; give a folder that has one folder for each class")
    classes = list_folders(root)
    if not classes:
        raise UserError(f"{root} has no class folders; put images into {root}/CLASS/IMAGE.jpg")
    for name in classes:
        files = list_images(root / name)
        if not files:
            raise UserError(f"{root / name} has no images; put some there, or delete the folder")
        for file in files:
            try:
                image = read_image(root / name / file)
            except UserError:
                if skipped is None:
                    raise
                skipped.append(printable(f"{name}/{file}", lines=False))
                continue
            yield image, printable(name, lines=False)


def _from_arrays(data: Any, labels: Any) -> Iterator[tuple[Tensor, Label]]:
    if labels is None:
        raise UserError("y is missing; give one label for each image")
    x, given = as_images(data, "X"), as_labels(labels)
    if len(given) != len(x):
        raise UserError(f"there are {len(x)} images and {len(given)} labels; give one label for each image")
    yield from zip(x, given, strict=True)


def _from_iterable(data: Any) -> Iterator[tuple[Tensor, Label]]:
    if not isinstance(data, Iterable):
        raise UserError(
            f"X is a {type(data).__name__}; give an array of images, a folder, or an iterable of (image, label)"
        )
    announced = len(data) if isinstance(data, Sized) else None
    count = 0
    items = iter(data)
    while True:
        try:
            item = next(items)
        except StopIteration:
            break
        except Exception as error:  # a user's iterable may raise anything
            raise UserError(
                f"the iterable ended after {count} images with {type(error).__name__}: {error}; nothing was learned"
            ) from error
        try:
            image, label = item
        except (TypeError, ValueError):
            raise UserError(f"item {count} of the iterable is no pair (image, label)") from None
        yield _read_image(image), _as_label(label)
        count += 1
    if announced is not None and count < announced:
        raise UserError(f"the iterable ended after {count} of {announced} images; nothing was learned")


def iterate_images(data: Any, batch: int) -> Iterator[list[Tensor]]:
    """Yield images, (1, C, H, W) uint8 each or (b, C, H, W) of one array, in lists of at most a batch.

    Raises:
        UserError: If something that was given is not allowed.
    """
    if isinstance(data, (str, Path)):
        data = list_files([data])
    elif isinstance(data, (np.ndarray, Tensor)):
        for part in as_images(data, "X").split(batch):
            yield [part]
        return
    if not isinstance(data, Iterable):
        raise UserError(f"X is a {type(data).__name__}; give images, image files, or a folder")
    items = iter(data)
    while images := [_read_image(item).unsqueeze(0) for item in itertools.islice(items, batch)]:
        yield images


def _read_image(image: Any) -> Tensor:
    """Return one image, an array, a Pillow image or a file, as (C, H, W) uint8."""
    return read_image(Path(image)) if isinstance(image, (str, Path)) else as_image(image, "an image")


def _collect(pairs: Iterable[tuple[Tensor, Label]], channels: int | None, size: int | None) -> LabeledImages:
    """Bring images to one shape and leave out repetitions."""
    rows: list[Tensor] = []
    labels: list[Label] = []
    seen: dict[bytes, Label] = {}
    repeated = 0
    for image, label in pairs:
        if size is None:
            size = max(image.shape[-2:])
        channels = channels or image.shape[0]
        x = fit(image.unsqueeze(0), channels, size).round().clamp(0, 255).to(torch.uint8)[0]
        key = hashlib.sha256(x.contiguous().numpy().data).digest()
        if key in seen:
            if seen[key] != label:
                raise UserError(
                    f"the same image has the labels {seen[key]!r} and {label!r}; delete it from one of the classes"
                )
            repeated += 1
            continue
        seen[key] = label
        rows.append(x)
        labels.append(label)
    if not rows:
        raise UserError("there are no images; give at least one")
    kinds = {type(label) for label in labels}
    if len(kinds) > 1:
        raise UserError(
            "some labels are text and others are numbers; give all of them as text, or all as numbers"
        )
    notes = (f"repeated images left out: {repeated}",) if repeated else ()
    return LabeledImages(torch.stack(rows), tuple(labels), notes)
