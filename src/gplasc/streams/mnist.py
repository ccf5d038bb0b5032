"""seq-mnist and seq-fashion from IDX files, gzipped or not."""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gplasc.errors import UserError
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset, Split
from gplasc.streams.locate import Layout, locate

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MARKERS = (FILES[0], f"{FILES[0]}.gz", "train-images.idx3-ubyte")
LAYOUTS = {
    "seq-mnist": Layout(folders=("mnist", "MNIST/raw", "MNIST"), markers=_MARKERS),
    "seq-fashion": Layout(
        folders=("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST"),
        markers=_MARKERS,
        elsewhere=("/usr/share/datasets/fashion-mnist",),
    ),
}
_NAMES = {
    "seq-mnist": tuple(map(str, range(10))),
    "seq-fashion": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}
_CONSTANTS = {"seq-mnist": ((0.1307,), (0.3081,)), "seq-fashion": ((0.2860,), (0.3530,))}
# The files of the two data sets have the same names; their first labels tell them apart.
_FIRST_LABELS = {
    "seq-mnist": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4],
    "seq-fashion": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5],
}
# Far above the largest of the four files (47 MB): a small file must not unpack to fill the memory.
_LARGEST = 2**30


def read(request: Request) -> Dataset:
    """Read the four files."""
    folder = locate(request.name, LAYOUTS[request.name], request.data_dir)
    train = _read_split(folder, FILES[0], FILES[1])
    for other, labels in _FIRST_LABELS.items():
        if other != request.name and train.labels[:10].tolist() == labels:
            raise UserError(
                f"{folder} holds the files of {other}, not of {request.name}; name another folder"
            )
    test = _read_split(folder, FILES[2], FILES[3])
    mean, std = _CONSTANTS[request.name]
    return Dataset(train, test, _NAMES[request.name], mean, std)


def _read_split(folder: Path, images_name: str, labels_name: str) -> Split:
    images_path, images = _read_idx(folder, images_name)
    labels_path, labels = _read_idx(folder, labels_name)
    if images.ndim != 3 or images.shape[1:] != (28, 28) or not len(images):
        raise UserError(f"{images_path} holds an array of shape {images.shape}, not images of 28 x 28 pixels")
    if labels.shape != (len(images),):
        raise UserError(f"{labels_path} holds {labels.size} labels for {len(images)} images; get both again")
    if labels.max() > 9:
        raise UserError(
            f"{labels_path} holds the label {labels.max()}, but labels run from 0 to 9; get it again"
        )
    return Split(torch.from_numpy(images[:, None]), torch.from_numpy(labels.astype(np.int64)))


def _read_idx(folder: Path, name: str) -> tuple[Path, NDArray[np.uint8]]:
    """Read an IDX file of bytes: two zeros, type 8, number of axes, their lengths (big-endian), content."""
    candidates = (name, f"{name}.gz", name.replace("-idx", ".idx"), name.replace("-idx", ".idx") + ".gz")
    path = next((folder / candidate for candidate in candidates if (folder / candidate).is_file()), None)
    if path is None:
        raise UserError(f"{folder / name} is missing (with or without .gz); put it there")
    content = _content(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not 1 <= content[3] <= 4:
        raise UserError(f"{path} is not an IDX file of bytes; delete it and get it again")
    axes = content[3]
    if len(content) < 4 + 4 * axes:
        raise UserError(f"{path} ends inside its header; delete it and get it again")
    shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
    size = prod(shape)
    if len(content) - 4 - 4 * axes != size:
        raise UserError(
            f"{path} announces {size} bytes of content and has {len(content) - 4 - 4 * axes}; "
            "it is cut short or damaged, delete it and get it again"
        )
    return path, np.frombuffer(bytearray(content[4 + 4 * axes :]), np.uint8).reshape(shape)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        if not zipped:
            content = path.read_bytes()
        else:
            with gzip.open(path) as unzipped:
                content = unzipped.read(_LARGEST)
                if unzipped.read(1):
                    raise UserError(f"{path} unpacks to more than a gigabyte; it is not this data set's file")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged or incomplete ({error}); delete it and get it again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise UserError(f"{path} is empty; delete it and get it again")
    return content
