"""What the file of a stream declares about its data sets: plain facts, nothing that needs torch or numpy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc._io.reading import user_path

if TYPE_CHECKING:
    from gplasc.streams.files import ArrayFiles, ImageFiles


@dataclass(frozen=True)
class Layout:
    """How a data set lies on disk."""

    folders: tuple[str, ...]  # names of the official folder
    markers: tuple[str, ...]  # a folder of any name is accepted if it holds one of these
    archives: tuple[str, ...] = ()  # names of the official archives
    elsewhere: tuple[str, ...] = ()  # where a system package puts it


@dataclass(frozen=True)
class Download:
    """One published file."""

    name: str
    urls: tuple[str, ...]  # tried in this order; https only
    checksum: str  # "sha256:..." or, where only that is known, "md5:..."
    folder: str = ""  # that it is saved in, below the data folder

    def __post_init__(self) -> None:
        known = re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", self.checksum)
        if not known or not all(url.startswith("https://") for url in self.urls):
            raise ValueError(f"{self.name} has an address that is not https, or an unknown kind of checksum")


@dataclass(frozen=True)
class StandIn:
    """The synthetic stream that replaces a real one at smoke scale: as many tasks and classes, few images."""

    stream: str
    settings: Mapping[str, object] = field(default_factory=dict)  # of the run, that change with it
    reduced: str = ""  # where its images are smaller than the real ones

    @classmethod
    def of_photographs(cls, tasks: int, classes: int, image_size: int, further: str = "") -> StandIn:
        """Return patterns of 16 px in the place of photographs; `further` is added to the name of the stream."""
        stream = f"synthetic:tasks={tasks},classes={classes},size=16,channels=3,train=4,test=2{further}"
        return cls(stream, {"train.batch": 64}, f"images of 16 instead of {image_size} px")


@dataclass(frozen=True)
class StreamInfo:
    """The facts of one stream; sizes are None where they depend on the user's files.

    name               as given to `open_stream`; a part after a colon stands for the user's argument
    read               lists the image files of a request, or names its files of arrays and how they are loaded
    mean, std          normalization, one number for each channel of images scaled to 0..1
    argument_optional  whether something may follow the name after a colon
    size_is_setting    whether images are resized when they are decoded, so that any size can be chosen
    counts_rounded     whether a split made for each class rounds, so that the counts are approximate
    layout, downloads  of data sets that are read from files
    checksums          further published files by name, and their checksums
    """

    name: str
    description: str
    read: Callable[[Request], ImageFiles | ArrayFiles]
    tasks: int | None = None
    classes_per_task: int = 2
    image_size: int | None = None
    channels: int | None = None
    train_images: int | None = None
    test_images: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    argument_optional: bool = False
    size_is_setting: bool = False
    counts_rounded: bool = False
    layout: Layout | None = None
    downloads: tuple[Download, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    stand_in: StandIn | None = None

    @property
    def kind(self) -> str:
        """The name without a placeholder: "folder" of "folder:PATH"."""
        return self.name.partition(":")[0]

    @property
    def needs_download(self) -> bool:
        """Whether the stream is read from files that its publisher provides."""
        return self.layout is not None

    @property
    def shape(self) -> str:
        """Tasks x classes and image size in words, for listings."""
        size = f"{self.image_size} px" if self.image_size else "any size"
        return f"{self.tasks or 'n'} x {self.classes_per_task}, {size}"

    def known_checksums(self) -> dict[str, str]:
        """Return file name -> checksum of every published file whose checksum is known."""
        return {file.name: file.checksum for file in self.downloads} | dict(self.checksums)


@dataclass(frozen=True)
class Request:
    """What a reader is asked for: the stream, what followed the colon, where to look, how to decode."""

    info: StreamInfo
    argument: str = ""
    data_dir: Path | None = None
    image_size: int | None = None
    seed: int = 0
    skip_corrupt: bool = False

    @property
    def path(self) -> Path:
        """The argument as a path."""
        return user_path(self.argument)
