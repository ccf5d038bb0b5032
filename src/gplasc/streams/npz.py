"""npz:PATH: the user's own arrays, in one file of numpy."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gplasc.errors import UserError
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset, Split, generator_for

TEST_FRACTION = 0.2
_NAMES = {
    "x_train": ("x_train", "train_images"),
    "y_train": ("y_train", "train_labels"),
    "x_test": ("x_test", "test_images"),
    "y_test": ("y_test", "test_labels"),
    "x": ("x", "images"),
    "y": ("y", "labels"),
}


def read(request: Request) -> Dataset:
    """Read x_train, y_train, x_test, y_test, or x and y, which are split by the seed, 80 to 20 in each class.

    Images: uint8, or floats in 0..1; (N, H, W), (N, C, H, W) or (N, H, W, C) with 1 or 3 channels. Labels:
    any integers, or text. An array `class_names` names the classes, in the order of the sorted labels.
    """
    path = Path(request.argument).expanduser()
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
        found = ", ".join(sorted(arrays)) or "nothing"
        raise UserError(f"{path} has {found}; it needs x_train, y_train, x_test and y_test, or x and y")
    _same_length(path, "x_train", x_train, "y_train", y_train)
    _same_length(path, "x_test", x_test, "y_test", y_test)
    if len(values) < 2:
        raise UserError(f"{path} has {len(values)} classes; at least two are needed")
    scaled = (
        x_train.astype(np.float32) / 255 if x_train.size < 10**7 else x_train[:: x_train.size // 10**7] / 255
    )
    return Dataset(
        Split(torch.from_numpy(x_train), torch.from_numpy(np.searchsorted(values, y_train))),
        Split(torch.from_numpy(x_test), torch.from_numpy(np.searchsorted(values, y_test))),
        _class_names(path, arrays, values),
        mean=tuple(round(float(value), 4) for value in scaled.mean((0, 2, 3))),
        # Not below what one gray level makes, or a constant channel would be divided by zero.
        std=tuple(max(round(float(value), 4), 1 / 255) for value in scaled.std((0, 2, 3))),
    )


def _load(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise UserError(
            f"{path} does not exist or is not a file; write npz:PATH with a file made by numpy.savez"
        )
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; write it again with numpy.savez")
    wanted = {alias: name for name, aliases in _NAMES.items() for alias in aliases}
    wanted["class_names"] = "class_names"
    try:
        # Never with pickles: an array of objects is a program.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UserError(f"{path} holds a single array; it needs several, write it with numpy.savez")
            with archive:
                return {wanted[name]: archive[name] for name in archive.files if name in wanted}
    except UserError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, MemoryError) as error:
        reason = (
            "it holds pickled objects" if "pickle" in str(error).lower() else str(error).split("\n")[0][:100]
        )
        raise UserError(f"{path} cannot be read ({reason}); write it again with numpy.savez") from error


def _images(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
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
        return np.ascontiguousarray((array * 255).round().astype(np.uint8))
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
    is_test = np.zeros(len(y), dtype=np.bool_)
    for number, value in enumerate(values):
        rows = np.flatnonzero(y == value)
        if len(rows) < 2:
            raise UserError(
                f"{path}: class {value} has one image; at least two are needed, one of them for testing"
            )
        drawn = torch.randperm(len(rows), generator=generator_for(seed, "npz", number)).numpy()
        is_test[rows[drawn[: max(1, round(TEST_FRACTION * len(rows)))]]] = True
    return is_test


def _class_names(path: Path, arrays: dict[str, NDArray[Any]], values: NDArray[Any]) -> tuple[str, ...]:
    if "class_names" not in arrays:
        return tuple(
            value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values
        )
    names = tuple(map(str, arrays["class_names"].ravel().tolist()))
    if len(names) != len(values):
        raise UserError(
            f"{path}: class_names has {len(names)} names for {len(values)} classes; they must agree"
        )
    return names
