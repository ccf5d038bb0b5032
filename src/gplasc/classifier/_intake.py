"""What a user may give as images (or features) and labels, checked where it enters, one by one."""

from __future__ import annotations

import hashlib
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gplasc._io.text import printable
from gplasc.classifier._gate import Label
from gplasc.classifier._pipeline import fit_square
from gplasc.errors import UserError
from gplasc.streams.arrays import as_images
from gplasc.streams.decode import as_image, read_image
from gplasc.streams.files import list_folders, list_images
from gplasc.streams.sources.npz import read_arrays

_LARGEST = 6e4  # of a feature, which is kept as float16
_THUMBNAIL = 64


class InputError(UserError, ValueError):
    """Images, features or labels that are not allowed; scikit-learn expects a ValueError."""


class Item(NamedTuple):
    """One image that is new: (C, size, size) uint8, or features (D,)."""

    x: Tensor
    label: Label
    digest: bytes


class Intake:
    """Labeled images or features, read one by one; for the arguments see `ContinualClassifier.learn`.

    Some of what is not allowed is noticed only by `items`.
    """

    def __init__(
        self, data: Any, labels: Any = None, *, parent: bool = False, skip_corrupt: bool = False
    ) -> None:
        self.notes: list[str] = []
        self.total: int | None = None
        """The number of images, if it is known."""
        listed = isinstance(data, (list, tuple)) and len(data) > 0 and isinstance(data[0], (str, Path))
        self.from_files = isinstance(data, (str, Path)) or listed
        self._skip = skip_corrupt
        self._skipped: list[str] = []
        if isinstance(data, (str, Path)):
            if labels is not None:
                raise InputError("y was given with a folder or file, which has the labels; leave y out")
            npz = str(data).endswith(".npz")
            pairs = self._arrays(*read_npz(Path(data), "xy")) if npz else self._folder(Path(data), parent)
        elif labels is None and not isinstance(data, (np.ndarray, Tensor)):
            pairs = self._iterable(data)
        else:
            pairs = self._arrays(data, labels)
        first = next(pairs, None)
        if first is None:
            raise InputError("there are no images that can be read; give at least one")
        self.first: Tensor = first[0]
        """The first image (C, H, W) or row of features (D,)."""
        self._pairs = itertools.chain([first], pairs)

    @property
    def features(self) -> bool:
        """Whether these are features."""
        return self.first.ndim == 1

    def items(
        self, shape: tuple[int, ...], known: Mapping[bytes, Label], labels: Sequence[Label]
    ) -> Iterator[Item]:
        """Yield what is not among the known digests, in the classifier's shape; at the end the notes are complete."""
        seen: dict[bytes, tuple[Label, str]] = {}
        repeated = already = 0
        kind = type(labels[0]) if labels else None
        for image, label, name in self._pairs:
            kind = kind or type(label)
            if type(label) is not kind:
                kinds = {str: "text", int: "numbers"}
                raise InputError(f"labels so far are {kinds[kind]}, now {label!r} was given; use one of them")
            x = fit_image(image, shape) if len(shape) == 3 else fit_features(image, shape[0])
            digest = hashlib.sha256(x.contiguous().numpy().data).digest()[:16]
            before, where = seen.get(digest) or (known.get(digest, label), "learned earlier")
            if before != label and not self.features:  # equal rows of features may be of different things
                raise InputError(
                    f"the same image has the labels {before!r} ({where}) and {label!r} ({name}); "
                    "delete it from one of the classes"
                )
            if before != label or (digest not in seen and digest not in known):
                yield Item(x, label, digest)
            else:
                repeated, already = repeated + (digest in seen), already + (digest not in seen)
            seen[digest] = (label, name)
        counts = {"repeated images left out": repeated, "already learned": already}
        self.notes += [f"{text}: {count}" for text, count in counts.items() if count]
        if self._skipped:
            more = f" and {len(self._skipped) - 1} more" if len(self._skipped) > 1 else ""
            self.notes.append(f"cannot be decoded and left out: {self._skipped[0]}{more}")

    # ---- sources: images with their labels and names -----------------------------------------------------------

    def _folder(self, root: Path, parent: bool) -> Iterator[tuple[Tensor, Label, str]]:
        if not root.is_dir():
            what = "is not a folder" if root.exists() else "does not exist"
            raise InputError(f"{root} {what}; give a folder that has one folder for each class")
        files: list[Path] = []
        for name in list_folders(root):
            inside = [root / name / file for file in list_images(root / name)]
            if not inside:
                raise InputError(f"{root / name} has no images; put some there, or delete the folder")
            nested = next((file for file in inside if file.parent != root / name), None)
            if nested is not None and not parent:
                raise InputError(
                    f"{nested} is in a folder inside the class folder {root / name}; add --labels parent if the "
                    "folder of each image is its class, or move the images"
                )
            files += inside
        if not files:
            raise InputError(f"{root} has no class folders; put images into {root}/CLASS/IMAGE.jpg")
        every = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
        others = sorted(every - {file.relative_to(root) for file in files})
        if others := [path for path in others if not any(part.startswith(".") for part in path.parts)]:
            kinds = Counter(path.suffix.lower() or "no suffix" for path in others).most_common(4)
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds)
            note = f"left out, no known kind of image: {counts}; for example {others[0]}"
            self.notes.append(printable(note, lines=False))
        self.total = len(files)
        for file in files:
            try:
                image = read_image(file)
            except UserError:
                if not self._skip:
                    raise
                self._skipped.append(printable(str(file.relative_to(root)), lines=False))
                continue
            label = file.parent.name if parent else file.relative_to(root).parts[0]
            yield image, printable(label, lines=False), str(file)

    def _arrays(self, data: Any, labels: Any) -> Iterator[tuple[Tensor, Label, str]]:
        if labels is None:
            raise InputError("y is missing; give one label for each image")
        single = (
            isinstance(data, (list, tuple)) and data and not isinstance(data[0], (list, tuple, float, int))
        )
        rows, given = data if single else as_rows(data), as_labels(labels)
        if len(given) != len(rows):
            raise InputError(
                f"there are {len(rows)} images and {len(given)} labels; give one label for each image"
            )
        self.total = len(rows)
        for number, (row, label) in enumerate(zip(rows, given, strict=True)):
            yield read_one(row) if single else row, label, f"number {number}"

    def _iterable(self, data: Any) -> Iterator[tuple[Tensor, Label, str]]:
        if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
            raise InputError(
                f"X is a {type(data).__name__}; give an array of images, a folder, or an iterable of (image, label)"
            )
        announced = len(data) if isinstance(data, Sized) else None
        count, items = 0, iter(data)
        while True:
            try:
                item = next(items)
            except StopIteration:
                break
            except Exception as error:  # a user's iterable may raise anything
                reason = f"{type(error).__name__}: {error}"
                raise InputError(
                    f"the iterable ended after {count} images with {reason}; nothing was learned"
                ) from error
            try:
                image, label = item
            except (TypeError, ValueError):
                raise InputError(f"item {count} of the iterable is no pair (image, label)") from None
            if getattr(label, "ndim", 0) == 1 and getattr(image, "ndim", 0) in (
                2,
                4,
            ):  # a batch of a DataLoader
                yield from (
                    (x, y, f"batch {count}") for x, y in zip(as_rows(image), as_labels(label), strict=True)
                )
            else:
                yield read_one(image), as_labels([label])[0], f"item {count}"
            count += 1
        if announced is not None and count < announced:
            raise InputError(f"the iterable ended after {count} of {announced} images; nothing was learned")


def read_npz(path: Path, names: str) -> list[Any]:
    """Return arrays of an .npz file."""
    arrays = read_arrays(path)
    if missing := [name for name in names if name not in arrays]:
        raise InputError(
            f"{path} has no array '{missing[0]}'; write it with numpy.savez(path, x=features, y=labels)"
        )
    return [arrays[name] for name in names]


def as_rows(data: Any) -> Tensor:
    """Return features (N, D) float32, or images (N, C, H, W) uint8; floats from 0 to 1 are images too."""
    if not isinstance(data, (np.ndarray, Tensor)):
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise InputError(f"X cannot be read as an array ({error}); give images as uint8") from None
    x = data
    if isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.number) and x.dtype != np.uint8:
        if np.iscomplexobj(x):
            raise InputError("Complex data not supported: give features as real numbers")
        x = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    if x.ndim == 2 and isinstance(x, Tensor):
        return x.detach().float().cpu()
    if isinstance(x, Tensor) and x.is_floating_point() and x.ndim in (3, 4) and x.numel():
        if not (float(x.min()) >= 0 and float(x.max()) <= 1):
            between = f"{float(x.min()):g} to {float(x.max()):g}"
            raise InputError(
                f"X has float values from {between}; give images as uint8, or floats from 0 to 1"
            )
        data = (x.detach().cpu() * 255).round().to(torch.uint8)
    try:
        return as_images(data, "X")
    except UserError as error:
        raise InputError(str(error)) from None


def read_one(image: Any) -> Tensor:
    """Return one image, an array, a Pillow image or a file, as (C, H, W) uint8; or features (D,)."""
    if isinstance(image, (str, Path)):
        return read_image(Path(image))
    if hasattr(image, "getexif"):  # Pillow's: turned the way the camera was held, as files are
        from PIL import ImageOps

        return as_image(ImageOps.exif_transpose(image), "an image")
    array = image if isinstance(image, Tensor) else np.asarray(image)
    return (
        as_rows(array[None])[0]
        if array.ndim == 1 or array.dtype not in (np.uint8, torch.uint8)
        else as_image(array, "X")
    )


def as_labels(values: Any) -> list[Label]:
    """Return labels as text or whole numbers."""
    return [_as_label(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]


def _as_label(value: object) -> Label:
    if isinstance(value, str) and value.strip():
        return str(value)
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and float(value).is_integer()
    ):
        return int(value)
    if value == "":
        raise InputError("a label is empty; give every class a name or a number")
    raise InputError(f"Unknown label type: {value!r} is neither a name nor a whole number")


def fit_image(image: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an image in the shape of the classifier's, uint8."""
    return fit_images(image.unsqueeze(0), shape).round().clamp(0, 255).to(torch.uint8)[0]


def fit_images(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return images (N, C, H, W) as float32 in the shape of the classifier's; gray ones are repeated."""
    if x.ndim != 4:
        raise InputError("features were given, but the classifier learned images; give images")
    if x.shape[1] not in (1, shape[0]):
        raise InputError(
            f"images have {x.shape[1]} channels, the first that were learned had {shape[0]}; convert them to gray"
        )
    return fit_square(x.expand(-1, shape[0], -1, -1), shape[-1])


def fit_features(x: Tensor, dim: int) -> Tensor:
    """Return features (..., D) rounded to float16, as they are kept."""
    if dim == 0:
        raise InputError("0 feature(s) (shape=(1, 0)) while a minimum of 1 is required.")
    if x.ndim > 2 or x.shape[-1] != dim:
        raise InputError(
            f"X has {x.shape[-1]} features, but ContinualClassifier is expecting {dim} features as input"
        )
    if not bool(torch.isfinite(x).all()):
        raise InputError("X has NaN or infinity; give finite features")
    if x.numel() and float(x.abs().max()) > _LARGEST:
        raise InputError(
            f"a feature is above {_LARGEST:,.0f}, the largest that is kept; divide all of them by a constant"
        )
    return x.half().float()


def list_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return image files: those named, and all below the folders named."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise InputError(f"{path} does not exist; name image files or folders of them")
        inside = [path / name for name in list_images(path)] if path.is_dir() else [path]
        if not inside:
            raise InputError(f"there are no images in {path}; name image files or folders of them")
        files += inside
    return files


def iterate_inputs(data: Any, batch: int, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Yield what is predicted, in the shape of the classifier, in batches: (b, C, size, size) float32 or (b, D)."""
    image = len(shape) == 3
    if isinstance(data, (str, Path)):
        data = read_npz(Path(data), "x")[0] if str(data).endswith(".npz") else list_files([data])
    if hasattr(data, "getexif") or (image and _is_single(data, shape[0])):
        data = [data]
    elif isinstance(data, (np.ndarray, Tensor)):
        for part in as_rows(data).split(batch):
            yield fit_images(part, shape) if image else fit_features(part, shape[0])
        return
    if not isinstance(data, Iterable):
        raise InputError(f"X is a {type(data).__name__}; give images, image files, or a folder")
    items = iter(data)
    while rows := [read_one(item).unsqueeze(0) for item in itertools.islice(items, batch)]:
        yield torch.cat([fit_images(x, shape) if image else fit_features(x, shape[0]) for x in rows])


def _is_single(data: Any, channels: int) -> bool:
    """Tell one image from an array of them: (H, W), (H, W, 3), or (3, H, W) where images have color."""
    if not isinstance(data, (np.ndarray, Tensor)) or data.ndim not in (2, 3):
        return False
    return data.ndim == 2 or data.shape[-1] == 3 or (data.shape[0] == 3 and channels == 3)


def thumbnail(x: Tensor) -> bytes:
    """Return an image (C, H, W) uint8 as a small JPEG."""
    from PIL import Image

    content = io.BytesIO()
    pixels = x.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
    Image.fromarray(pixels).resize((_THUMBNAIL, _THUMBNAIL)).save(content, "JPEG", quality=75)
    return content.getvalue()
