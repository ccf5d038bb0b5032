"""imagenet-r and imagenet-a: a folder for each WordNet id; no official split, so a fixed one of 80 to 20."""

from __future__ import annotations

import re
from pathlib import Path

from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.streams.files import ImageFiles, held_out_names, list_folders, list_images, read_lines
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import cache_folder, locate

# The split belongs to the data set, not to a run: it never changes with the run's seed.
_SPLIT_SEED = 0
_WNID = re.compile(r"n\d{8}")


def _read(request: Request) -> ImageFiles:
    """List the images; classes are ordered by WordNet id and named as in the README, where it names them."""
    root = locate(request)
    wnids = [name for name in list_folders(root) if _WNID.fullmatch(name)]
    if not wnids:
        raise UserError(
            f"{root} has no folder named by a WordNet id (n01443537, ...); name the unpacked data set"
        )
    images: list[tuple[str, int, bool]] = []
    for number, wnid in enumerate(wnids):
        files = [f"{wnid}/{name}" for name in list_images(root / wnid)]
        if len(files) < 2:
            raise UserError(
                f"{root / wnid} has {len(files)} images, a split needs two; get the data set again"
            )
        test = held_out_names(files, _SPLIT_SEED)
        images += [(file, number, file in test) for file in files]
    images.sort(key=lambda image: image[2])
    lists = [
        _write_list(f"{request.info.name}-{split}", images, split == "test") for split in ("train", "test")
    ]
    note = f"the 80/20 split is listed in {lists[0]} and {lists[1]}"
    return ImageFiles(root, images, _names(root, wnids), (note,))


def _write_list(name: str, images: list[tuple[str, int, bool]], of_test: bool) -> Path:
    """Write the file names of a split where a user can read them; rewritten only when they changed."""
    path = cache_folder() / "splits" / f"{name}.txt"
    text = "".join(f"{file}\n" for file, _, is_test in images if is_test == of_test)
    content = text.encode("utf-8", "backslashreplace")
    if not path.is_file() or path.read_bytes() != content:
        write_atomic(path, content)
    return path


def _names(root: Path, wnids: list[str]) -> tuple[str, ...]:
    names: dict[str, str] = {}
    if (root / "README.txt").is_file():
        for line in read_lines(root / "README.txt"):
            wnid, _, name = line.partition(" ")
            if _WNID.fullmatch(wnid) and name.strip():
                names[wnid] = name.strip()
    chosen = [names.get(wnid, wnid) for wnid in wnids]
    return tuple(chosen) if len(set(chosen)) == len(chosen) else tuple(wnids)


def _info(
    name: str, description: str, train_images: int, test_images: int, marker: str, md5: str, seed: int
) -> StreamInfo:
    archive = f"{name}.tar"
    return StreamInfo(
        name=name,
        description=f"{description}; fixed 80/20 split of each class",
        tasks=5,
        classes_per_task=40,
        image_size=224,
        channels=3,
        read=_read,
        train_images=train_images,
        test_images=test_images,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        size_is_setting=True,
        counts_rounded=True,
        layout=Layout(folders=(name,), markers=(marker,), archives=(archive,)),
        # No SHA-256 of these archives could be confirmed; MD5 guards against damage, not against malice.
        downloads=(
            Download(archive, (f"https://people.eecs.berkeley.edu/~hendrycks/{archive}",), f"md5:{md5}"),
        ),
        stand_in=StandIn(
            f"synthetic:tasks=5,classes=40,size=16,channels=3,train=4,test=2,seed={seed}",
            settings={"train.batch": 64},
            reduced="images of 16 instead of 224 px",
        ),
    )


STREAMS = (
    _info(
        "imagenet-r",
        "ImageNet-R, art and renditions",
        24_000,
        6_000,
        marker="n01443537",
        md5="a61312130a589d0ca1a8fca1f2bd3337",
        seed=2,
    ),
    _info(
        "imagenet-a",
        "ImageNet-A, hard photographs",
        6_000,
        1_500,
        marker="n01498041",
        md5="c3e55429088dc681f30d81f4726b6595",
        seed=3,
    ),
)
