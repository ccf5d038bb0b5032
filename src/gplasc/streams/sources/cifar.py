"""seq-cifar10 and seq-cifar100 from the official files: the python batches or the binary version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.streams.files import ArrayFiles, Dataset, Split, damaged, read_lines, read_published
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import locate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PIXELS = 3 * 32 * 32
_LARGEST = 512 * 2**20  # the largest official file has 155 MB


@dataclass(frozen=True)
class _Version:
    """One of the two formats: its files, and where labels and names of classes are in them."""

    train: tuple[str, ...]
    test: str
    names: str
    classes: int
    # Binary: how many bytes are before the pixels, of which the last is the (fine) label; python: a key.
    labels: int | str
    names_key: str = ""


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_BINARY_BATCHES = tuple(f"{name}.bin" for name in _BATCHES)
_BINARY = {
    "seq-cifar10": _Version(_BINARY_BATCHES, "test_batch.bin", "batches.meta.txt", 10, labels=1),
    "seq-cifar100": _Version(("train.bin",), "test.bin", "fine_label_names.txt", 100, labels=2),
}
_PYTHON = {
    "seq-cifar10": _Version(_BATCHES, "test_batch", "batches.meta", 10, "labels", "label_names"),
    "seq-cifar100": _Version(("train",), "test", "meta", 100, "fine_labels", "fine_label_names"),
}


def _read(request: Request) -> ArrayFiles:
    """Find the files of either version, in the folder or in the archive."""
    folder, name = locate(request), request.info.name
    version = _BINARY[name]
    if not any((folder / file).exists() for file in (*version.train, version.test, version.names)):
        version = _PYTHON[name]
    paths = [folder / file for file in (*version.train, version.test, version.names)]
    return ArrayFiles(lambda: _load(request.info, version, paths), paths)


def _load(info: StreamInfo, version: _Version, paths: list[Path]) -> Dataset:
    *train, test, names = paths
    splits = _read_split(train, version), _read_split([test], version)
    return Dataset(*splits, _read_names(names, version), info.mean, info.std)


def _read_split(paths: list[Path], version: _Version) -> Split:
    import numpy as np
    import torch

    parts = []
    for path in paths:
        images, labels = _read_file(path, version.labels)
        wrong = labels[(labels < 0) | (labels >= version.classes)]
        if len(wrong):
            raise damaged(path, f"holds the label {wrong[0]}, but labels run from 0 to {version.classes - 1}")
        parts.append((images, labels))
    images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Split(torch.from_numpy(images.reshape(-1, 3, 32, 32)), torch.from_numpy(labels))


def _read_file(path: Path, place: int | str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images (N, 3072), channel after channel, and labels (N,)."""
    import numpy as np

    from gplasc.streams._pickles import read_pickle

    if isinstance(place, int):
        content = read_published(path, _LARGEST)
        if len(content) % (place + _PIXELS):
            raise damaged(path, f"has {len(content)} bytes, not a multiple of {place + _PIXELS}")
        records = np.frombuffer(content, np.uint8).reshape(-1, place + _PIXELS)
        return records[:, place:], records[:, place - 1].astype(np.int64)
    batch = read_pickle(path)
    images, labels = batch.get("data"), batch.get(place)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (_PIXELS,):
        raise damaged(path, "holds no images of 3,072 bytes under 'data'")
    whole = isinstance(labels, list) and all(isinstance(label, int) for label in labels)
    if not whole or not labels or len(labels) != len(images):
        raise damaged(path, f"holds no label under {place!r} for each of {len(images)} images")
    return np.asarray(images), np.array([min(max(label, -1), 2**31) for label in labels], dtype=np.int64)


def _read_names(path: Path, version: _Version) -> tuple[str, ...]:
    from gplasc.streams._pickles import read_pickle

    names = read_pickle(path).get(version.names_key) if version.names_key else read_lines(path)
    texts = [
        name.decode("utf-8", errors="replace") if isinstance(name, bytes) else name
        for name in (names if isinstance(names, list) else ())
        if isinstance(name, str | bytes)
    ]
    if len(texts) != version.classes or len(set(texts)) != version.classes:
        raise damaged(path, f"names {len(texts)} classes, not {version.classes}")
    return tuple(texts)


_info = partial(
    StreamInfo, tasks=5, image_size=32, channels=3, read=_read, train_images=50_000, test_images=10_000
)


def _downloads(archive: str, sha256: str) -> tuple[Download]:
    return (Download(archive, (f"https://www.cs.toronto.edu/~kriz/{archive}",), f"sha256:{sha256}"),)


STREAMS = (
    _info(
        name="seq-cifar10",
        description="CIFAR-10, small color photographs",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2615),
        layout=Layout(
            folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
            markers=("data_batch_1", "data_batch_1.bin"),
            archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
        ),
        downloads=_downloads(
            "cifar-10-python.tar.gz", "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
        ),
        checksums={
            "cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530",
            "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
            "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
            "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "md5:40351d587109b95175f43aff81a1287e",
            "batches.meta": "md5:5ff9c542aee3614f3951f8cda6e48888",
            "data_batch_1.bin": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
        stand_in=StandIn("synthetic:tasks=5,classes=2,size=32,channels=3,train=8,test=4"),
    ),
    _info(
        name="seq-cifar100",
        description="CIFAR-100, small color photographs",
        classes_per_task=20,
        mean=(0.5071, 0.4867, 0.4408),
        std=(0.2675, 0.2565, 0.2761),
        layout=Layout(
            folders=("cifar-100-python", "cifar-100-binary"),
            markers=("train.bin", "fine_label_names.txt", "meta"),
            archives=("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
        ),
        downloads=_downloads(
            "cifar-100-python.tar.gz", "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
        ),
        checksums={
            "cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8",
            "train": "md5:16019d7e3df5f24257cddd939b257f8d",
            "test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "sha256:a5d4786345c961390f865e93b434dbd5c6904ce880667e0cb888c97d449f28b9",
            "train.bin": "md5:6172c7755cfe09b2fe270c85cebc1b15",
            "test.bin": "md5:4499cfba6c016c1be1438163640a0898",
        },
        stand_in=StandIn(
            "synthetic:tasks=5,classes=20,size=32,channels=3,train=4,test=2", settings={"train.batch": 64}
        ),
    ),
)
