"""seq-mnist and seq-fashion from IDX files, gzipped or not."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.errors import UserError
from gplasc.streams.files import ArrayFiles, Dataset, Split, damaged, read_published
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import locate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KINDS = ("images-idx3", "labels-idx1")
_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in _KINDS)
_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_NAMES = {"seq-mnist": tuple("0123456789"), "seq-fashion": tuple(_CLOTHES.split(","))}
# The files of the two data sets have the same names; their first labels tell them apart.
_FIRST_LABELS = {"seq-mnist": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4], "seq-fashion": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]}
# Above the largest of the four files (47 MB): a small file must not unpack to fill the memory.
_LARGEST = 128 * 2**20


def _read(request: Request) -> ArrayFiles:
    folder = locate(request)
    paths = [_find(folder, name) for name in _FILES]
    return ArrayFiles(lambda: _load(request.info, paths), paths)


def _load(info: StreamInfo, paths: list[Path]) -> Dataset:
    train = _read_split(*paths[:2])
    for other, labels in _FIRST_LABELS.items():
        if other != info.name and train.labels[:10].tolist() == labels:
            raise UserError(f"{paths[0].parent} holds the files of {other}, not of {info.name}; name another")
    return Dataset(train, _read_split(*paths[2:]), _NAMES[info.name], info.mean, info.std)


def _find(folder: Path, name: str) -> Path:
    dotted = name.replace("-idx", ".idx")
    for candidate in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise UserError(f"{folder / name} is missing (with or without .gz); put it there")


def _read_split(images_path: Path, labels_path: Path) -> Split:
    import numpy as np
    import torch

    images, labels = _read_idx(images_path, 3), _read_idx(labels_path, 1)
    if images.shape[1:] != (28, 28) or not len(images):
        raise damaged(images_path, f"holds an array of shape {images.shape}, not images of 28 x 28 pixels")
    if len(labels) != len(images):
        raise damaged(labels_path, f"holds {len(labels)} labels for {len(images)} images")
    if labels.max() > 9:
        raise damaged(labels_path, f"holds the label {labels.max()}, but labels run from 0 to 9")
    return Split(torch.from_numpy(images[:, None].copy()), torch.from_numpy(labels.astype(np.int64)))


def _read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of bytes: two zeros, type 8, number of axes, their lengths (big-endian), content."""
    import numpy as np

    content = read_published(path, _LARGEST)
    if content.startswith(b"\x1f\x8b"):
        content = _unzip(content, path)
    start = 4 + 4 * axes
    kind, *shape = struct.unpack(f">{axes + 1}I", content[:start].ljust(start, b"\xff"))
    if kind != 0x800 + axes or len(content) != start + prod(shape):
        raise damaged(path, f"is not an IDX file of bytes with {axes} axes, or it is cut short")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _unzip(content: bytes, path: Path) -> bytes:
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(_LARGEST + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, f"is damaged or incomplete ({error})") from error
    if len(content) > _LARGEST:
        raise damaged(path, f"unpacks to more than {_LARGEST >> 20} MB")
    return content


_info = partial(
    StreamInfo, tasks=5, image_size=28, channels=1, read=_read, train_images=60_000, test_images=10_000
)


def _downloads(folder: str, addresses: tuple[str, ...], sha256: tuple[str, ...]) -> tuple[Download, ...]:
    return tuple(
        Download(f"{file}.gz", tuple(f"{url}{file}.gz" for url in addresses), f"sha256:{checksum}", folder)
        for file, checksum in zip(_FILES, sha256, strict=True)
    )


_MARKERS = (_FILES[0], f"{_FILES[0]}.gz", "train-images.idx3-ubyte")
STREAMS = (
    _info(
        name="seq-mnist",
        description="MNIST handwritten digits",
        mean=(0.1307,),
        std=(0.3081,),
        layout=Layout(folders=("mnist", "MNIST/raw", "MNIST"), markers=_MARKERS),
        downloads=_downloads(
            "mnist",
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        stand_in=StandIn("synthetic:tasks=5,classes=2,size=28,channels=1,train=8,test=4,seed=1"),
    ),
    _info(
        name="seq-fashion",
        description="Fashion-MNIST, gray pictures of clothes",
        mean=(0.2860,),
        std=(0.3530,),
        layout=Layout(
            folders=("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST"),
            markers=_MARKERS,
            elsewhere=("/usr/share/datasets/fashion-mnist",),
        ),
        downloads=_downloads(
            "fashion-mnist",
            ("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",),
            (
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
        stand_in=StandIn("synthetic:tasks=5,classes=2,size=28,channels=1,train=8,test=4,seed=0"),
    ),
)
