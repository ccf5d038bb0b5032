"""seq-cifar10 and seq-cifar100 from the official files: the python batches or the binary version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gplasc.errors import UserError
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset, Split
from gplasc.streams.locate import Layout, locate
from gplasc.streams.unpickle import read_pickle

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Cifar:
    layout: Layout
    classes: int
    binary_train: tuple[str, ...]
    binary_test: str
    binary_names: str
    label_bytes: int  # of which the last is the (fine) label
    python_train: tuple[str, ...]
    python_test: str
    python_meta: str
    label_key: str
    names_key: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_KINDS = {
    "seq-cifar10": _Cifar(
        layout=Layout(
            folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
            markers=("data_batch_1", "data_batch_1.bin"),
            archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
        ),
        classes=10,
        binary_train=tuple(f"{name}.bin" for name in _BATCHES),
        binary_test="test_batch.bin",
        binary_names="batches.meta.txt",
        label_bytes=1,
        python_train=_BATCHES,
        python_test="test_batch",
        python_meta="batches.meta",
        label_key="labels",
        names_key="label_names",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2615),
    ),
    "seq-cifar100": _Cifar(
        layout=Layout(
            folders=("cifar-100-python", "cifar-100-binary"),
            markers=("train.bin", "fine_label_names.txt", "meta"),
            archives=("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
        ),
        classes=100,
        binary_train=("train.bin",),
        binary_test="test.bin",
        binary_names="fine_label_names.txt",
        label_bytes=2,
        python_train=("train",),
        python_test="test",
        python_meta="meta",
        label_key="fine_labels",
        names_key="fine_label_names",
        mean=(0.5071, 0.4867, 0.4408),
        std=(0.2675, 0.2565, 0.2761),
    ),
}
LAYOUTS = {name: kind.layout for name, kind in _KINDS.items()}


def read(request: Request) -> Dataset:
    """Read either layout, from the folder or from the archive."""
    kind = _KINDS[request.name]
    folder = locate(request.name, kind.layout, request.data_dir)
    binary = any(
        (folder / name).exists() for name in (*kind.binary_train, kind.binary_test, kind.binary_names)
    )
    if binary:
        names = _read_names(folder / kind.binary_names, kind)
        train = [_read_binary(folder / name, kind) for name in kind.binary_train]
        test = [_read_binary(folder / kind.binary_test, kind)]
    else:
        names = _read_meta(folder / kind.python_meta, kind)
        train = [_read_batch(folder / name, kind) for name in kind.python_train]
        test = [_read_batch(folder / kind.python_test, kind)]
    return Dataset(_join(train), _join(test), names, kind.mean, kind.std)


def _join(parts: list[tuple[NDArray[np.uint8], NDArray[np.int64]]]) -> Split:
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts])
    return Split(torch.from_numpy(images), torch.from_numpy(labels))


def _read_binary(path: Path, kind: _Cifar) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Records of label bytes (CIFAR-100: coarse, fine) and 3,072 pixels, channel after channel."""
    content = _read_bytes(path)
    record = kind.label_bytes + _PIXELS
    if not content or len(content) % record:
        raise UserError(
            f"{path} has {len(content)} bytes, not a multiple of {record}; "
            "it is cut short or not this data set, delete it and get it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    labels = records[:, kind.label_bytes - 1].astype(np.int64)
    _check_labels(path, labels, kind)
    return records[:, kind.label_bytes :], labels


def _read_batch(path: Path, kind: _Cifar) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    batch = _plain_keys(path, read_pickle(_must_exist(path)))
    images, labels = batch.get("data"), batch.get(kind.label_key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (_PIXELS,):
        raise UserError(f"{path} holds no images of 3,072 bytes under 'data'; delete it and get it again")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise UserError(
            f"{path} holds no list of labels under {kind.label_key!r}; delete it and get it again"
        )
    if len(labels) != len(images) or not labels:
        raise UserError(
            f"{path} holds {len(images)} images but {len(labels)} labels; delete it and get it again"
        )
    numbers = np.array([min(max(label, -1), 2**31) for label in labels], dtype=np.int64)
    _check_labels(path, numbers, kind)
    return images, numbers


def _check_labels(path: Path, labels: NDArray[np.int64], kind: _Cifar) -> None:
    wrong = labels[(labels < 0) | (labels >= kind.classes)]
    if len(wrong):
        raise UserError(
            f"{path} holds the label {wrong[0]}, but labels run from 0 to {kind.classes - 1}; "
            "it is damaged or not this data set, delete it and get it again"
        )


def _read_names(path: Path, kind: _Cifar) -> tuple[str, ...]:
    text = _read_bytes(path).decode("utf-8", errors="replace")
    return _check_names(path, [line.strip() for line in text.splitlines() if line.strip()], kind)


def _read_meta(path: Path, kind: _Cifar) -> tuple[str, ...]:
    names = _plain_keys(path, read_pickle(_must_exist(path))).get(kind.names_key)
    return _check_names(path, names if isinstance(names, list) else [], kind)


def _check_names(path: Path, names: list[Any], kind: _Cifar) -> tuple[str, ...]:
    texts = [
        name.decode("utf-8", errors="replace") if isinstance(name, bytes) else str(name) for name in names
    ]
    if len(texts) != kind.classes or len(set(texts)) != kind.classes:
        raise UserError(f"{path} names {len(texts)} classes, not {kind.classes}; delete it and get it again")
    return tuple(texts)


def _plain_keys(path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(
            f"{path} holds a {type(value).__name__}, not a batch of images; delete it and get it again"
        )
    return {
        key.decode("latin-1") if isinstance(key, bytes) else str(key): item for key, item in value.items()
    }


def _must_exist(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"{path} is missing; unpack the official archive completely")
    return path


def _read_bytes(path: Path) -> bytes:
    try:
        return _must_exist(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
