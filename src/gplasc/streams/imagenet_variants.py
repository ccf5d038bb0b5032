"""imagenet-r and imagenet-a: a folder for each WordNet id; no official split, so a fixed one of 80 to 20."""

from __future__ import annotations

import re
from pathlib import Path

from gplasc.errors import UserError
from gplasc.files import write_atomic
from gplasc.streams.cache import decode, list_images
from gplasc.streams.catalog import Request
from gplasc.streams.dataset import Dataset
from gplasc.streams.filesplit import split_names
from gplasc.streams.imagelist import ImageList, splits_of
from gplasc.streams.locate import Layout, cache_folder, locate

LAYOUTS = {
    "imagenet-r": Layout(folders=("imagenet-r",), markers=("n01443537",), archives=("imagenet-r.tar",)),
    "imagenet-a": Layout(folders=("imagenet-a",), markers=("n01498041",), archives=("imagenet-a.tar",)),
}
# The split belongs to the data set, not to a run: it never changes with the run's seed.
SPLIT_SEED = 0
TEST_FRACTION = 0.2
_WNID = re.compile(r"n\d{8}")


def read(request: Request) -> Dataset:
    """Classes are ordered by WordNet id and named as in the README, where it names them."""
    root = locate(request.name, LAYOUTS[request.name], request.data_dir)
    wnids = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and _WNID.fullmatch(entry.name))
    if not wnids:
        raise UserError(
            f"{root} has no folder named by a WordNet id (n01443537, ...); name the unpacked data set"
        )
    train: list[tuple[str, int]] = []
    test: list[tuple[str, int]] = []
    for number, wnid in enumerate(wnids):
        files = [f"{wnid}/{name}" for name in list_images(root / wnid)]
        if len(files) < 2:
            raise UserError(
                f"{root / wnid} has {len(files)} images, a split needs two; get the data set again"
            )
        own_train, own_test = split_names(files, fraction=TEST_FRACTION, seed=SPLIT_SEED)
        train += [(name, number) for name in own_train]
        test += [(name, number) for name in own_test]
    images = ImageList.of(train, test)
    listed = _write_lists(request.name, train, test)
    assert request.image_size is not None
    decoded = decode(request.name, root, images.files, request.image_size, skip_corrupt=request.skip_corrupt)
    train_split, test_split = splits_of(images, decoded)
    return Dataset(
        train_split,
        test_split,
        _names(root, wnids),
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        notes=(f"the 80/20 split is listed in {listed[0]} and {listed[1]}", *decoded.notes),
    )


def _write_lists(name: str, train: list[tuple[str, int]], test: list[tuple[str, int]]) -> tuple[Path, Path]:
    """Write the file names of both splits where a user can read them; rewritten only when they changed."""
    paths = []
    for split, pairs in (("train", train), ("test", test)):
        path = cache_folder() / "splits" / f"{name}-{split}.txt"
        text = "".join(f"{file}\n" for file, _ in pairs)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomic(path, text)
        paths.append(path)
    return paths[0], paths[1]


def _names(root: Path, wnids: list[str]) -> tuple[str, ...]:
    names: dict[str, str] = {}
    readme = root / "README.txt"
    if readme.is_file():
        for line in readme.read_text(encoding="utf-8", errors="replace").splitlines():
            wnid, _, name = line.strip().partition(" ")
            if _WNID.fullmatch(wnid) and name.strip():
                names[wnid] = name.strip()
    chosen = [names.get(wnid, wnid) for wnid in wnids]
    return tuple(chosen) if len(set(chosen)) == len(chosen) else tuple(wnids)
