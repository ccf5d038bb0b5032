"""What a user may give as images (or features) and labels, checked where it enters, one by one."""

from __future__ import annotations

import hashlib
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
        self.from_files = isinstance(_first(data), (str, Path))
        self._parent, self._skip, self._skipped = parent, skip_corrupt, list[str]()
        if isinstance(data, (str, Path)):
            if labels is not None:
                raise InputError("y was given with a folder or file, which has the labels; leave y out")
            npz = str(data).endswith(".npz")
            pairs = self._arrays(*_read_npz(Path(data), "xy")) if npz else self._folder(Path(data))
        elif labels is None and not isinstance(data, (np.ndarray, Tensor)):
            pairs = _iterate_pairs(data)
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
        counts = Counter[str]()
        kind = type(labels[0]) if labels else None
        for image, label, name in self._pairs:
            kind = kind or type(label)
            if type(label) is not kind:
                so_far = "text" if kind is str else "numbers"
                raise InputError(f"labels so far are {so_far}, now {label!r} was given; use one of them")
            x = fit(image, shape)
            x = x if len(shape) == 1 else x.round().clamp(0, 255).to(torch.uint8)
            digest = hashlib.sha256(x.contiguous().numpy().data).digest()[:16]
            before, where = seen.get(digest) or (known.get(digest, label), "learned earlier")
            if before != label and not self.features:  # equal rows of features may be of different things
                both = f"{before!r} ({where}) and {label!r} ({name})"
                raise InputError(f"the same image has the labels {both}; delete it from one of the classes")
            if before == label and (digest in seen or digest in known):
                counts["repeated images left out" if digest in seen else "already learned"] += 1
            else:
                yield Item(x, label, digest)
            seen[digest] = (label, name)
        self.notes += [f"{text}: {count}" for text, count in counts.items()]
        if self._skipped:
            more = f" and {len(self._skipped) - 1} more" if len(self._skipped) > 1 else ""
            self.notes.append(f"cannot be decoded and left out: {self._skipped[0]}{more}")

    # ---- sources: images with their labels and names -----------------------------------------------------------

    def _folder(self, root: Path) -> Iterator[tuple[Tensor, Label, str]]:
        if not root.is_dir():
            what = "is not a folder" if root.exists() else "does not exist"
            raise InputError(f"{root} {what}; give a folder that has one folder for each class")
        files = [path for path in map(Path, list_images(root)) if len(path.parts) > 1]
        for name in sorted(set(list_folders(root)) - {path.parts[0] for path in files}):
            raise InputError(f"{root / name} has no images; put some there, or delete the folder")
        if not files:
            raise InputError(f"{root} has no class folders; put images into {root}/CLASS/IMAGE.jpg")
        nested = next((path for path in files if len(path.parts) > 2), None)
        if nested and not self._parent:
            where = f"{root / nested} is in a folder inside a class folder"
            raise InputError(f"{where}; move it, or add --labels parent if the innermost folder is the class")
        every = {path.relative_to(root) for path in root.rglob("[!.]*") if path.is_file()}
        if others := [p for p in sorted(every - {*files}) if not any(part[0] == "." for part in p.parts)]:
            kinds = Counter(path.suffix.lower() or "no suffix" for path in others).most_common(4)
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds)
            note = f"left out, no image in a class folder: {counts}; for example {others[0]}"
            self.notes.append(printable(note, lines=False))
        self.total = len(files)
        for path in files:
            label = path.parent.name if self._parent else path.parts[0]
            try:
                yield read_image(root / path), printable(label, lines=False), str(root / path)
            except UserError:
                if not self._skip:
                    raise
                self._skipped.append(printable(str(path), lines=False))

    def _arrays(self, data: Any, labels: Any) -> Iterator[tuple[Tensor, Label, str]]:
        if labels is None:
            raise InputError("y is missing; give one label for each image")
        single = isinstance(data, (list, tuple)) and not isinstance(_first(data), (list, tuple, float, int))
        rows, given = data if single else as_rows(data), as_labels(labels)
        if len(given) != len(rows):
            counts = f"there are {len(rows)} images and {len(given)} labels"
            raise InputError(f"{counts}; give one label for each image")
        self.total = len(rows)
        for number, (row, label) in enumerate(zip(rows, given, strict=True)):
            yield read_one(row) if single else row, label, f"number {number}"


def _first(data: Any) -> Any:
    """Return the first entry of a list; anything else as it is."""
    return data[0] if isinstance(data, (list, tuple)) and data else data


def _iterate_pairs(data: Any) -> Iterator[tuple[Tensor, Label, str]]:
    """Read pairs of image and label, or batches of a DataLoader."""
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        kind = type(data).__name__
        raise InputError(f"X is of type {kind}; give an array of images, a folder, or an iterable of pairs")
    count = 0
    try:
        for item in data:
            if not isinstance(item, Sequence) or len(item) != 2:
                raise InputError(f"item {count} of the iterable is no pair (image, label)")
            image, label = item
            if getattr(label, "ndim", 0) == 1 and getattr(image, "ndim", 0) in (2, 4):  # a batch
                for x, y in zip(as_rows(image), as_labels(label), strict=True):
                    yield x, y, f"batch {count}"
            else:
                yield read_one(image), as_labels([label])[0], f"item {count}"
            count += 1
    except UserError:
        raise
    except Exception as error:  # a user's iterable may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"the iterable ended after {count} images with {reason}") from error
    if isinstance(data, Sized) and count < len(data):
        raise InputError(f"the iterable ended after {count} of {len(data)} images")


def _read_npz(path: Path, names: str) -> list[Any]:
    """Return arrays of an .npz file."""
    arrays = read_arrays(path)
    if missing := set(names) - set(arrays):
        raise InputError(
            f"{path} has no array '{min(missing)}'; write it with numpy.savez(path, x=..., y=...)"
        )
    return [arrays[name] for name in names]


def as_rows(data: Any) -> Tensor:
    """Return features (N, D) float32, or images (N, C, H, W) uint8; floats from 0 to 1 are images too."""
    try:
        x = data if isinstance(data, (np.ndarray, Tensor)) else np.asarray(data)
        if x.ndim == 2 and x.dtype != np.uint8:
            from sklearn.utils import check_array

            return torch.from_numpy(check_array(x, dtype=np.float32, ensure_min_samples=0, copy=True))
        if isinstance(x, np.ndarray) and x.dtype.kind in "fiu" and x.dtype != np.uint8:
            x = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        if isinstance(x, Tensor) and x.is_floating_point() and x.ndim in (3, 4) and x.numel():
            low, high = float(x.min()), float(x.max())
            if not 0 <= low <= high <= 1:
                raise InputError(f"X has float values from {low:g} to {high:g}; give uint8, or 0 to 1")
            x = (x.detach().cpu() * 255).round().to(torch.uint8)
        return as_images(x, "X")
    except (UserError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(reason) from error


def read_one(image: Any) -> Tensor:
    """Return one image, an array, a Pillow image or a file, as (C, H, W) uint8; or features (D,)."""
    if isinstance(image, (str, Path)):
        return read_image(Path(image))
    if hasattr(image, "getexif"):  # Pillow's
        return as_image(image, "an image")
    return as_rows((image if isinstance(image, Tensor) else np.asarray(image))[None])[0]


def as_labels(values: Any) -> list[Label]:
    """Return labels as text or whole numbers."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Iterable):
        raise InputError(f"y is a {type(values).__name__}; give one label for each image")
    return [_as_label(value) for value in listed]


def _as_label(value: Any) -> Label:
    value = value.item() if isinstance(value, (Tensor, np.generic)) and not value.ndim else value
    if isinstance(value, str) and value.strip():
        return str(value)
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) < 2**63
        and float(value).is_integer()
    ):
        return int(value)
    raise InputError(f"Unknown label type: {value!r} is empty, or neither a name nor a whole number")


def fit(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an image (C, H, W) as float32 in the classifier's shape, or features as they are kept, (D,)."""
    if len(shape) == 1:
        return _fit_features(x, shape[0])
    if x.ndim != 3:
        raise InputError("features were given, but the classifier learned images; give images")
    if len(x) not in (1, shape[0]):
        raise InputError(
            f"images have {len(x)} channels, not {shape[0]} as those before; convert them to gray"
        )
    return fit_square(x.expand(shape[0], -1, -1).unsqueeze(0), shape[-1])[0]


def _fit_features(x: Tensor, dim: int) -> Tensor:
    """Return features rounded to float16."""
    if x.ndim != 1 or len(x) != dim:
        found = f"X has {x.shape[-1]} features"
        raise InputError(f"{found}, but ContinualClassifier is expecting {dim} features as input")
    if float(x.abs().max()) > _LARGEST:
        raise InputError(f"a feature is above {_LARGEST:,.0f}; divide all of them by a constant")
    return x.half().float()


def list_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return image files: those named, and all below the folders named."""
    files: list[Path] = []
    for path in map(Path, paths):
        inside = [path / name for name in list_images(path)] if path.is_dir() else [path]
        if not path.exists() or not inside:
            what = "there are no images in" if inside == [] else "there is no"
            raise InputError(f"{what} {path}; name image files or folders of them")
        files += inside
    return files


def iterate_inputs(data: Any, batch: int, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Yield what is predicted, in the shape of the classifier, in batches: (b, C, size, size) float32 or (b, D)."""
    if isinstance(data, (str, Path)):
        data = _read_npz(Path(data), "x")[0] if str(data).endswith(".npz") else list_files([data])
    if hasattr(data, "getexif") or (len(shape) == 3 and _is_single(data, shape[0])):
        data = [data]
    if not isinstance(data, Iterable):
        raise InputError(f"X is a {type(data).__name__}; give images, image files, or a folder")
    rows = iter(as_rows(data)) if isinstance(data, (np.ndarray, Tensor)) else map(read_one, data)
    while fitted := [fit(row, shape) for row in itertools.islice(rows, batch)]:
        yield torch.stack(fitted)


def _is_single(data: Any, channels: int) -> bool:
    """Tell one image from an array of them: (H, W), (H, W, 3), or (3, H, W) where images have color."""
    if not isinstance(data, (np.ndarray, Tensor)) or data.ndim not in (2, 3):
        return False
    return data.ndim == 2 or data.shape[-1] == 3 or (data.shape[0] == 3 and channels == 3)
