"""seq-mnist and seq-fashion from IDX files, gzipped or not."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.errors import UserError
from gplasc.streams.files import ArrayFiles, read_bytes
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import locate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gplasc.streams.dataset import Dataset, Split

_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_NAMES = {"seq-mnist": tuple("0123456789"), "seq-fashion": tuple(_CLOTHES.split(","))}
# The files of the two data sets have the same names; their first labels tell them apart.
_FIRST_LABELS = {
    "seq-mnist": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4],
    "seq-fashion": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5],
}
# Above the largest of the four files (47 MB): a small file must not unpack to fill the memory.
_LARGEST = 128 * 2**20


def _read(request: Request) -> ArrayFiles:
    folder = locate(request)
    paths = [_find(folder, name) for name in _FILES]
    return ArrayFiles(lambda: _load(request.info, paths), paths)


def _load(info: StreamInfo, paths: list[Path]) -> Dataset:
    from gplasc.streams.dataset import Dataset

    train = _read_split(*paths[:2])
    for other, labels in _FIRST_LABELS.items():
        if other != info.name and train.labels[:10].tolist() == labels:
            raise UserError(
                f"{paths[0].parent} holds the files of {other}, not of {info.name}; name another folder"
            )
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

    from gplasc.streams.dataset import Split

    images, labels = _read_idx(images_path), _read_idx(labels_path)
    if images.ndim != 3 or images.shape[1:] != (28, 28) or not len(images):
        raise UserError(f"{images_path} holds an array of shape {images.shape}, not images of 28 x 28 pixels")
    if labels.shape != (len(images),):
        raise UserError(f"{labels_path} holds {labels.size} labels for {len(images)} images; get both again")
    if labels.max() > 9:
        raise UserError(
            f"{labels_path} holds the label {labels.max()}, but labels run from 0 to 9; get it again"
        )
    return Split(torch.from_numpy(images[:, None]), torch.from_numpy(labels.astype(np.int64)))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of bytes: two zeros, type 8, number of axes, their lengths (big-endian), content."""
    import numpy as np

    content = _content(path)
    axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    start = 4 + 4 * axes
    if not 1 <= axes <= 4 or len(content) < start:
        raise UserError(f"{path} is not an IDX file of bytes; delete it and get it again")
    shape = struct.unpack(f">{axes}I", content[4:start])
    size = prod(shape)
    if len(content) - start != size:
        raise UserError(
            f"{path} announces {size} bytes of content and has {len(content) - start}; "
            "it is cut short or damaged, delete it and get it again"
        )
    return np.frombuffer(bytearray(content[start:]), np.uint8).reshape(shape)


def _content(path: Path) -> bytes:
    content = read_bytes(path, _LARGEST)
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(_LARGEST + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged or incomplete ({error}); delete it and get it again") from error
    if len(content) > _LARGEST:
        raise UserError(
            f"{path} unpacks to more than {_LARGEST >> 20} MB; it is not this data set's file, "
            "delete it and get it again"
        )
    return content


def _info(
    name: str,
    description: str,
    mean: float,
    std: float,
    layout: Layout,
    base_urls: tuple[str, ...],
    sha256: tuple[str, str, str, str],
    stand_in_seed: int,
) -> StreamInfo:
    return StreamInfo(
        name=name,
        description=description,
        tasks=5,
        classes_per_task=2,
        image_size=28,
        channels=1,
        read=_read,
        train_images=60_000,
        test_images=10_000,
        mean=(mean,),
        std=(std,),
        layout=layout,
        downloads=tuple(
            Download(
                f"{file}.gz",
                tuple(f"{base}{file}.gz" for base in base_urls),
                f"sha256:{checksum}",
                folder=layout.folders[0],
            )
            for file, checksum in zip(_FILES, sha256, strict=True)
        ),
        stand_in=StandIn(
            f"synthetic:tasks=5,classes=2,size=28,channels=1,train=8,test=4,seed={stand_in_seed}"
        ),
    )


_MARKERS = (_FILES[0], f"{_FILES[0]}.gz", "train-images.idx3-ubyte")
STREAMS = (
    _info(
        "seq-mnist",
        "MNIST handwritten digits",
        0.1307,
        0.3081,
        Layout(folders=("mnist", "MNIST/raw", "MNIST"), markers=_MARKERS),
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
        stand_in_seed=1,
    ),
    _info(
        "seq-fashion",
        "Fashion-MNIST, gray pictures of clothes",
        0.2860,
        0.3530,
        Layout(
            folders=("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST"),
            markers=_MARKERS,
            elsewhere=("/usr/share/datasets/fashion-mnist",),
        ),
        ("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        stand_in_seed=0,
    ),
)
