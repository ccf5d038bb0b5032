"""cub200 from CUB_200_2011's folder or tgz, with its official split."""

from __future__ import annotations

from pathlib import Path

from gplasc.errors import UserError
from gplasc.streams.cache import decode
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset
from gplasc.streams.imagelist import ImageList, splits_of
from gplasc.streams.locate import Layout, locate
from gplasc.streams.textfile import inside, read_lines

LAYOUTS = {
    "cub200": Layout(
        folders=("CUB_200_2011",),
        markers=("image_class_labels.txt",),
        archives=("CUB_200_2011.tgz", "CUB_200_2011.tar.gz"),
    )
}


def read(request: Request) -> Dataset:
    """Join the official lists by image id."""
    root = locate(request.name, LAYOUTS[request.name], request.data_dir)
    names = _table(root / "classes.txt")
    files = _table(root / "images.txt")
    labels = _table(root / "image_class_labels.txt")
    is_train = _table(root / "train_test_split.txt")
    numbers = {identity: number for number, identity in enumerate(names)}
    for other, table in (("image_class_labels.txt", labels), ("train_test_split.txt", is_train)):
        if set(table) != set(files):
            raise UserError(
                f"{root / other} does not list the same images as images.txt; get the official files"
            )
    pairs: dict[str, list[tuple[str, int]]] = {"1": [], "0": []}
    for identity, file in files.items():
        if labels[identity] not in numbers:
            raise UserError(
                f"{root / 'image_class_labels.txt'} gives image {identity} the class {labels[identity]!r}, "
                "which classes.txt does not list; get the official files"
            )
        if is_train[identity] not in pairs:
            raise UserError(
                f"{root / 'train_test_split.txt'} says {is_train[identity]!r} of image {identity}, "
                "but 1 (train) and 0 (test) are allowed; get the official file"
            )
        pair = (inside(file, root / "images.txt"), numbers[labels[identity]])
        pairs[is_train[identity]].append(pair)
    # Stable: inside a class the order of the official list stays.
    images = ImageList.of(*(sorted(pairs[split], key=lambda pair: pair[1]) for split in ("1", "0")))
    assert request.image_size is not None
    decoded = decode(
        request.name, root / "images", images.files, request.image_size, skip_corrupt=request.skip_corrupt
    )
    train, test = splits_of(images, decoded)
    return Dataset(
        train,
        test,
        tuple(names.values()),
        mean=(0.4856, 0.4994, 0.4324),
        std=(0.2272, 0.2226, 0.2613),
        notes=decoded.notes,
    )


def _table(path: Path) -> dict[str, str]:
    """Read lines of "id value"."""
    table: dict[str, str] = {}
    for line in read_lines(path):
        identity, _, value = line.partition(" ")
        if not value or identity in table:
            raise UserError(
                f"{path} has the line {line[:60]!r}, not a new number and a value; get the official file"
            )
        table[identity] = value.strip()
    return table
