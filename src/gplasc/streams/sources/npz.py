"""npz:PATH: the user's own arrays, in one file of numpy."""

from __future__ import annotations

import os
import zipfile
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gplasc.errors import UserError
from gplasc.streams.files import open_regular
from gplasc.streams.info import Request, StreamInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gplasc.streams.dataset import Dataset

STREAMS = (
    StreamInfo(
        name="npz:PATH",
        description="your own arrays, x_train, y_train, x_test, y_test",
        tasks=None,
        classes_per_task=2,
        image_size=None,
        channels=None,
    ),
)
_TEST_FRACTION = 0.2
_NAMES = {
    "x_train": ("x_train", "train_images"),
    "y_train": ("y_train", "train_labels"),
    "x_test": ("x_test", "test_images"),
    "y_test": ("y_test", "test_labels"),
    "x": ("x", "images"),
    "y": ("y", "labels"),
    "class_names": ("class_names",),
}
# A file may unpack to a hundred times its size, and to this much in any case.
_MOST_RATIO = 100
_SMALL_BYTES = 256 * 2**20
_CHUNK = 1024  # images that are converted at once


def files(request: Request) -> list[Path]:
    """Return the one file."""
    if not request.path.is_file():
        raise UserError(
            f"{request.path} does not exist or is not a file; write npz:PATH with a file made by numpy.savez"
        )
    return [request.path]


def read(request: Request) -> Dataset:
    """Read x_train, y_train, x_test, y_test, or x and y, which are split by the seed, 80 to 20 in each class.

    Images: uint8, or floats in 0..1; (N, H, W), (N, C, H, W) or (N, H, W, C) with 1 or 3 channels. Labels:
    any integers, or text. An array `class_names` names the classes, in the order of the sorted labels.
    """
    import numpy as np
    import torch

    from gplasc.streams.dataset import Dataset, Split

    (path,) = files(request)
    arrays = _load(path)
    if "x_train" in arrays:
        missing = [name for name in ("y_train", "x_test", "y_test") if name not in arrays]
        if missing:
            raise UserError(
                f"{path} has x_train but no {missing[0]}; it needs x_train, y_train, x_test and y_test"
            )
        x_train, x_test = (_images(path, name, arrays[name]) for name in ("x_train", "x_test"))
        y_train, y_test = (_labels(path, name, arrays[name]) for name in ("y_train", "y_test"))
        if x_train.shape[1:] != x_test.shape[1:]:
            raise UserError(
                f"{path}: x_train has images of shape {x_train.shape[1:]}, x_test of {x_test.shape[1:]}; "
                "they must be equal"
            )
        values = np.unique(y_train)
        if not np.isin(y_test, values).all():
            raise UserError(f"{path}: y_test has a class that y_train lacks; give training images of it")
    elif "x" in arrays and "y" in arrays:
        x, y = _images(path, "x", arrays["x"]), _labels(path, "y", arrays["y"])
        _same_length(path, "x", x, "y", y)
        values = np.unique(y)
        is_test = _seeded_test(path, y, values, request.seed)
        x_train, y_train, x_test, y_test = x[~is_test], y[~is_test], x[is_test], y[is_test]
    else:
        found = ", ".join(sorted(arrays)) or "none of the arrays"
        raise UserError(f"{path} has {found}; it needs x_train, y_train, x_test and y_test, or x and y")
    _same_length(path, "x_train", x_train, "y_train", y_train)
    _same_length(path, "x_test", x_test, "y_test", y_test)
    if len(values) < 2:
        raise UserError(f"{path} has {len(values)} classes; at least two are needed")
    step = max(1, x_train.size // 10**7)
    scaled = x_train[::step].astype(np.float32) / 255 if step == 1 else x_train[::step] / 255
    return Dataset(
        Split(torch.from_numpy(x_train), torch.from_numpy(np.searchsorted(values, y_train))),
        Split(torch.from_numpy(x_test), torch.from_numpy(np.searchsorted(values, y_test))),
        _class_names(path, arrays, values),
        mean=tuple(round(float(value), 4) for value in scaled.mean((0, 2, 3))),
        # Not below what one gray level makes, or a constant channel would be divided by zero.
        std=tuple(max(round(float(value), 4), 1 / 255) for value in scaled.std((0, 2, 3))),
    )


def _load(path: Path) -> dict[str, NDArray[Any]]:
    import numpy as np

    wanted = {f"{alias}.npy": name for name, aliases in _NAMES.items() for alias in aliases}
    with open_regular(path) as file:
        head = file.read(6)
        if not head:
            raise UserError(f"{path} is empty; write it again with numpy.savez")
        if head == b"\x93NUMPY":
            raise UserError(f"{path} holds a single array; it needs several, write it with numpy.savez")
        if not head.startswith(b"PK"):
            raise UserError(f"{path} is not an npz file; write one with numpy.savez")
        try:
            with zipfile.ZipFile(file) as archive:
                members = [member for member in archive.infolist() if member.filename in wanted]
                _check_size(path, sum(member.file_size for member in members))
                found = {}
                for member in members:
                    if member.flag_bits & 0x1:
                        raise UserError(f"{path} is locked with a password; write it again with numpy.savez")
                    with archive.open(member) as content:
                        _check_header(content, member.file_size)
                    with archive.open(member) as content:
                        array = np.lib.format.read_array(content, allow_pickle=False)
                    found[wanted[member.filename]] = array
                return found
        except UserError:
            raise
        except Exception as error:  # damaged headers make zipfile and numpy raise almost anything
            reason = str(error).split("\n")[0][:100] or type(error).__name__
            if "pickle" in reason.lower():
                reason = "it holds pickled objects"
            raise UserError(f"{path} cannot be read ({reason}); write it again with numpy.savez") from error


def _check_size(path: Path, unpacked: int) -> None:
    size = path.stat().st_size
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else unpacked
    if unpacked > min(max(_SMALL_BYTES, _MOST_RATIO * size), memory):
        raise UserError(
            f"{path} has {size / 1e6:,.0f} MB and unpacks to {unpacked / 1e6:,.0f} MB, which is refused; "
            "give smaller images, or image files as folder:PATH"
        )


def _check_header(content: IO[bytes], size: int) -> None:
    """Compare the header of an array with the size of the file: numpy reserves what the header says."""
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(content)
    if version not in readers:
        raise ValueError(f"its arrays have the format {version}")
    shape, _, dtype = readers[version](content)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    if any(length < 0 for length in shape) or prod(shape) * dtype.itemsize > size:
        raise ValueError(f"an array of shape {shape} is announced, the content is shorter")


def _images(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    import numpy as np

    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in (1, 3):  # the last axis wins if both fit, as in `to_pixels`
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        raise UserError(
            f"{path}: {name} has shape {array.shape}; (N, H, W), (N, C, H, W) or (N, H, W, C) "
            "with 1 or 3 channels are allowed"
        )
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise UserError(
                f"{path}: {name} has floats outside 0..1 or not finite; scale them, or give uint8"
            )
        images = np.empty(array.shape, np.uint8)
        for start in range(0, len(array), _CHUNK):  # in pieces: the whole would need the memory four times
            images[start : start + _CHUNK] = (array[start : start + _CHUNK] * 255).round()
        return images
    if array.dtype.kind in "iu" and array.min() >= 0 and array.max() <= 255:
        return np.ascontiguousarray(array.astype(np.uint8))
    raise UserError(f"{path}: {name} has type {array.dtype}; uint8, or floats in 0..1, are allowed")


def _labels(path: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iuUSb":
        raise UserError(
            f"{path}: {name} has shape {array.shape} and type {array.dtype}; "
            "a list of whole numbers or of names is allowed"
        )
    return array


def _same_length(path: Path, x_name: str, x: NDArray[Any], y_name: str, y: NDArray[Any]) -> None:
    if len(x) != len(y):
        raise UserError(
            f"{path}: {x_name} has {len(x)} images but {y_name} has {len(y)} labels; they must agree"
        )


def _seeded_test(path: Path, y: NDArray[Any], values: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    import numpy as np
    import torch

    from gplasc.streams.dataset import Budget, sample_rows

    labels = np.searchsorted(values, y)
    for value, count in zip(values, np.bincount(labels), strict=True):
        if count < 2:
            raise UserError(
                f"{path}: class {value} has one image; at least two are needed, one of them for testing"
            )
    share = Budget(validation=_TEST_FRACTION).held_out
    return sample_rows(torch.from_numpy(labels), share, seed, "npz").numpy()


def _class_names(path: Path, arrays: dict[str, NDArray[Any]], values: NDArray[Any]) -> tuple[str, ...]:
    names = tuple(
        name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)
        for name in arrays.get("class_names", values).ravel().tolist()
    )
    if len(names) != len(values):
        raise UserError(
            f"{path}: class_names has {len(names)} names for {len(values)} classes; they must agree"
        )
    return names
