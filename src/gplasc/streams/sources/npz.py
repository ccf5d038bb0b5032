"""npz:PATH: the user's own arrays, in one file of numpy."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.reading import open_regular
from gplasc.errors import UserError
from gplasc.streams.files import ArrayFiles, Dataset
from gplasc.streams.info import Request, StreamInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    _Arrays = dict[str, NDArray[Any]]

_TEST_FRACTION = 0.2
_SPLITS = (("x_train", "y_train"), ("x_test", "y_test"))
_ALIASES = {
    "x_train": "train_images",
    "y_train": "train_labels",
    "x_test": "test_images",
    "y_test": "test_labels",
    "x": "images",
    "y": "labels",
    "class_names": "class_names",
}
# Compressed arrays may unpack to a hundred times their size and to 4 GB, and to 256 MB in any case.
_MOST_RATIO = 100
_MOST_BYTES = 4 * 2**30
_SMALL_BYTES = 256 * 2**20
_CHUNK = 1024  # images that are converted at once


def _read(request: Request) -> ArrayFiles:
    path = request.path
    if not path.is_file():
        raise UserError(f"{path} does not exist or is not a file; write one with numpy.savez")
    return ArrayFiles(lambda: _load(path, request.seed), [path])


def _load(path: Path, seed: int) -> Dataset:
    """Read x_train, y_train, x_test, y_test, or x and y, which are split by the seed, 80 to 20 in each class."""
    import numpy as np

    from gplasc.streams.arrays import labeled_dataset

    arrays = read_arrays(path)
    if arrays.keys() >= {name for names in _SPLITS for name in names}:
        train, test = (_pair(path, arrays, *names) for names in _SPLITS)
    elif {"x", "y"} <= arrays.keys():
        train, test = _split(path, *_pair(path, arrays, "x", "y"), seed)
    else:
        names = ", ".join(sorted(arrays)) or "none of the arrays"
        raise UserError(f"{path} has {names}; it needs x_train, y_train, x_test and y_test, or x and y")
    x = train[0].numpy()
    step = max(1, x.size // 10**7)
    scaled = x[::step].astype(np.float32) / 255 if step == 1 else x[::step] / 255
    class_names = arrays["class_names"].ravel().tolist() if "class_names" in arrays else None
    normalization = scaled.mean((0, 2, 3)), scaled.std((0, 2, 3))
    return labeled_dataset(train, test, class_names, normalization=normalization, name=str(path))


def read_arrays(path: Path) -> _Arrays:
    """Read the arrays that are known, if what is stored of them explains what they unpack to."""
    import numpy as np

    with open_regular(path) as file:
        head = file.read(6)
        if not head.startswith(b"PK"):
            what = {b"": "is empty", b"\x93NUMPY": "holds a single array"}.get(head, "is not an npz file")
            raise UserError(f"{path} {what}; write several arrays with numpy.savez")
        try:
            with zipfile.ZipFile(file) as archive:
                every = {item.filename: item for item in archive.infolist()}
            members = {
                name: every[f"{alias}.npy"]
                for name, other in _ALIASES.items()
                for alias in (other, name)
                if f"{alias}.npy" in every
            }
            unpacked = sum(member.file_size for member in members.values())
            packed = min(sum(member.compress_size for member in members.values()), path.stat().st_size)
            if unpacked > max(_SMALL_BYTES, min(_MOST_RATIO * packed, _MOST_BYTES), 2 * packed):
                raise UserError(
                    f"{path} holds arrays of {packed / 1e6:,.0f} MB that unpack to {unpacked / 1e6:,.0f} MB, which "
                    "is refused; give smaller images, or image files as folder:PATH"
                )
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            arrays = {name: loaded[member.filename] for name, member in members.items()}
            if any(array.size > members[name].file_size for name, array in arrays.items()):
                raise ValueError("an array has more values than bytes")
            return arrays
        except UserError:
            raise
        except Exception as error:  # damaged headers make zipfile and numpy raise almost anything
            reason = str(error).split("\n")[0][:100] or type(error).__name__
            reason = "it holds pickled objects" if "pickle" in reason.lower() else reason
            raise UserError(f"{path} cannot be read ({reason}); write it again with numpy.savez") from error


def _pair(path: Path, arrays: _Arrays, x_name: str, y_name: str) -> tuple[Tensor, NDArray[Any]]:
    """Return images and labels that belong together."""
    from gplasc.streams.arrays import as_images

    y = arrays[y_name]
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or y.dtype.kind not in "iuUSb":
        what = f"{y_name} has shape {y.shape} and type {y.dtype}"
        raise UserError(f"{path}: {what}; a list of whole numbers or of names is allowed")
    x = as_images(_pixels(arrays[x_name], f"{path}: {x_name}"), f"{path}: {x_name}").contiguous()
    if len(x) != len(y) or not len(x):
        what = f"{x_name} has {len(x)} images but {y_name} has {len(y)} labels"
        raise UserError(f"{path}: {what}; give one for each image")
    return x, y


def _pixels(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return floats in 0..1, and whole numbers in 0..255, as uint8."""
    import numpy as np

    if array.dtype.kind == "f" and array.size and array.ndim:
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise UserError(f"{name} has floats outside 0..1 or not finite; scale them, or give uint8")
        images = np.empty(array.shape, np.uint8)
        for start in range(0, len(array), _CHUNK):  # in pieces: the whole would need the memory four times
            images[start : start + _CHUNK] = (array[start : start + _CHUNK] * 255).round()
        return images
    if array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() <= 255:
        return array.astype(np.uint8, copy=False)
    return array


def _split(path: Path, x: Tensor, y: NDArray[Any], seed: int) -> list[tuple[Tensor, NDArray[Any]]]:
    """Hold out a fifth of each class for testing."""
    import numpy as np
    import torch

    from gplasc.streams.dataset import Budget, sample_rows

    values, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    if counts.min(initial=2) < 2:
        raise UserError(f"{path}: class {values[counts.argmin()]} has one image; give two, one for testing")
    is_test = sample_rows(torch.from_numpy(labels), Budget(validation=_TEST_FRACTION).held_out, seed, "npz")
    return [(x[rows], y[rows.numpy()]) for rows in (~is_test, is_test)]


STREAMS = (StreamInfo("npz:PATH", "your own arrays, x_train, y_train, x_test, y_test", _read),)
