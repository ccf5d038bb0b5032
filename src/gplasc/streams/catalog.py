"""The streams by name: what they are and which file reads them. Imports nothing heavy, for quick listings."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.streams.dataset import Dataset


@dataclass(frozen=True)
class StreamInfo:
    """One line of the catalog; sizes are None where they depend on the user's files."""

    name: str
    description: str
    reader: str
    tasks: int | None
    classes_per_task: int
    image_size: int | None
    channels: int | None
    train_images: int | None = None
    test_images: int | None = None
    needs_download: bool = False
    size_is_setting: bool = False

    @property
    def shape(self) -> str:
        """Tasks x classes and image size in words, for listings."""
        tasks = f"{self.tasks} x {self.classes_per_task}" if self.tasks else f"n x {self.classes_per_task}"
        size = f"{self.image_size} px" if self.image_size else "any size"
        return f"{tasks}, {size}"


@dataclass(frozen=True)
class Request:
    """What a reader is asked for: a name, what followed its colon, where to look, and how to decode."""

    name: str
    argument: str = ""
    data_dir: Path | None = None
    image_size: int | None = None
    seed: int = 0
    skip_corrupt: bool = False


STREAMS = (
    StreamInfo(
        "seq-digits",
        "handwritten digits of scikit-learn, embedded",
        "digits",
        tasks=5,
        classes_per_task=2,
        image_size=8,
        channels=1,
        train_images=1297,
        test_images=500,
    ),
    StreamInfo(
        "seq-mnist",
        "MNIST handwritten digits",
        "mnist",
        tasks=5,
        classes_per_task=2,
        image_size=28,
        channels=1,
        train_images=60_000,
        test_images=10_000,
        needs_download=True,
    ),
    StreamInfo(
        "seq-fashion",
        "Fashion-MNIST, gray pictures of clothes",
        "mnist",
        tasks=5,
        classes_per_task=2,
        image_size=28,
        channels=1,
        train_images=60_000,
        test_images=10_000,
        needs_download=True,
    ),
    StreamInfo(
        "seq-cifar10",
        "CIFAR-10, small color photographs",
        "cifar",
        tasks=5,
        classes_per_task=2,
        image_size=32,
        channels=3,
        train_images=50_000,
        test_images=10_000,
        needs_download=True,
    ),
    StreamInfo(
        "seq-cifar100",
        "CIFAR-100, small color photographs",
        "cifar",
        tasks=5,
        classes_per_task=20,
        image_size=32,
        channels=3,
        train_images=50_000,
        test_images=10_000,
        needs_download=True,
    ),
    StreamInfo(
        "seq-tinyimagenet",
        "Tiny-ImageNet-200; its validation images are the test split",
        "tinyimagenet",
        tasks=10,
        classes_per_task=20,
        image_size=64,
        channels=3,
        train_images=100_000,
        test_images=10_000,
        needs_download=True,
        size_is_setting=True,
    ),
    StreamInfo(
        "cub200",
        "CUB-200-2011, photographs of 200 kinds of birds",
        "cub",
        tasks=5,
        classes_per_task=40,
        image_size=224,
        channels=3,
        train_images=5_994,
        test_images=5_794,
        needs_download=True,
        size_is_setting=True,
    ),
    StreamInfo(
        "imagenet-r",
        "ImageNet-R, art and renditions; fixed 80/20 split of each class",
        "imagenet_variants",
        tasks=5,
        classes_per_task=40,
        image_size=224,
        channels=3,
        train_images=24_000,
        test_images=6_000,
        needs_download=True,
        size_is_setting=True,
    ),
    StreamInfo(
        "imagenet-a",
        "ImageNet-A, hard photographs; fixed 80/20 split of each class",
        "imagenet_variants",
        tasks=5,
        classes_per_task=40,
        image_size=224,
        channels=3,
        train_images=6_000,
        test_images=1_500,
        needs_download=True,
        size_is_setting=True,
    ),
    StreamInfo(
        "folder:PATH",
        "your own images, one folder for each class",
        "folder",
        tasks=None,
        classes_per_task=2,
        image_size=64,
        channels=3,
        size_is_setting=True,
    ),
    StreamInfo(
        "npz:PATH",
        "your own arrays, x_train, y_train, x_test, y_test",
        "npz",
        tasks=None,
        classes_per_task=2,
        image_size=None,
        channels=None,
    ),
    StreamInfo(
        "synthetic",
        "colored patterns in noise, made on the spot; synthetic:tasks=5,size=32,... to change them",
        "synthetic",
        tasks=4,
        classes_per_task=2,
        image_size=16,
        channels=3,
        train_images=320,
        test_images=160,
    ),
)


def list_streams() -> list[StreamInfo]:
    """Return every stream that `open_stream` knows."""
    return list(STREAMS)


def find_stream(name: str) -> tuple[StreamInfo, str]:
    """Split a name such as `folder:PATH` into its catalog line and what follows the colon."""
    kind, _, argument = name.partition(":")
    for info in STREAMS:
        own, _, placeholder = info.name.partition(":")
        if own != kind:
            continue
        if placeholder and not argument:
            raise UserError(f"the stream {name!r} lacks a path; write {info.name}, for example {own}:my-data")
        if argument and not placeholder and own != "synthetic":
            raise UserError(f"the stream {own!r} takes nothing after a colon, but {argument!r} was given")
        return info, argument
    names = [info.name.partition(":")[0] for info in STREAMS]
    close = difflib.get_close_matches(kind, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    allowed = ", ".join(info.name for info in STREAMS)
    raise UserError(f"there is no stream {name!r}; {hint}Streams: {allowed}")


def read_dataset(info: StreamInfo, request: Request) -> Dataset:
    """Let the stream's own file read the data set."""
    reader = importlib.import_module(f"gplasc.streams.{info.reader}")
    dataset: Dataset = reader.read(request)
    return dataset
