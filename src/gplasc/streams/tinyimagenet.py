"""seq-tinyimagenet from the official folder or zip. The labeled validation images serve as test split."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gplasc.errors import UserError
from gplasc.streams.cache import decode, list_images
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset
from gplasc.streams.imagelist import ImageList, splits_of
from gplasc.streams.locate import Layout, locate
from gplasc.streams.textfile import inside, read_lines

LAYOUTS = {
    "seq-tinyimagenet": Layout(
        folders=("tiny-imagenet-200",), markers=("wnids.txt",), archives=("tiny-imagenet-200.zip",)
    )
}


def read(request: Request) -> Dataset:
    """Classes are numbered as in wnids.txt and named as in words.txt."""
    root = locate(request.name, LAYOUTS[request.name], request.data_dir)
    wnids = read_lines(root / "wnids.txt")
    numbers = {wnid: number for number, wnid in enumerate(wnids)}
    if len(numbers) != len(wnids):
        raise UserError(f"{root / 'wnids.txt'} names a class twice; get the official file")
    for wnid in wnids:
        inside(wnid, root / "wnids.txt")
        if not (root / "train" / wnid).is_dir():
            raise UserError(f"{root / 'train' / wnid} is missing; unpack the official archive completely")
    train = [
        (f"train/{wnid}/{name}", number)
        for wnid, number in numbers.items()
        for name in list_images(root / "train" / wnid)
    ]
    test = sorted(_validation(root, numbers), key=lambda pair: (pair[1], pair[0]))
    images = ImageList.of(train, test)
    assert request.image_size is not None
    decoded = decode(request.name, root, images.files, request.image_size, skip_corrupt=request.skip_corrupt)
    train_split, test_split = splits_of(images, decoded)
    return Dataset(
        train_split,
        test_split,
        _names(root, wnids),
        mean=(0.4802, 0.4480, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        notes=decoded.notes,
    )


def _validation(root: Path, numbers: dict[str, int]) -> list[tuple[str, int]]:
    path = root / "val" / "val_annotations.txt"
    pairs = []
    for line in read_lines(path):
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in numbers:
            raise UserError(f"{path} has the line {line[:60]!r} without a known class; get the official file")
        pairs.append((f"val/images/{inside(fields[0], path)}", numbers[fields[1]]))
    return pairs


def _names(root: Path, wnids: list[str]) -> tuple[str, ...]:
    """The first word of each class ("goldfish"), with the id where two classes share it."""
    words: dict[str, str] = {}
    if (root / "words.txt").is_file():
        for line in read_lines(root / "words.txt"):
            wnid, _, text = line.partition("\t")
            words[wnid] = text.split(",")[0].strip()
    names = [words.get(wnid) or wnid for wnid in wnids]
    shared = Counter(names)
    return tuple(
        f"{name} ({wnid})" if shared[name] > 1 else name for name, wnid in zip(names, wnids, strict=True)
    )
