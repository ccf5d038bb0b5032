"""imagenet-r and imagenet-a: a folder for each WordNet id; no official split, so a fixed one of 80 to 20."""

import re
from pathlib import Path

from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.streams.files import ImageFiles, list_folders, read_lines, split_by_name
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import cache_folder, locate

_SPLIT_SEED = 0  # the split belongs to the data set, not to a run
_WNID = re.compile(r"n\d{8}")


def _read(request: Request) -> ImageFiles:
    """List the images; classes are ordered by WordNet id and named as in the README, where it names them."""
    root = locate(request)
    wnids = [name for name in list_folders(root) if _WNID.fullmatch(name)]
    if not wnids:
        raise UserError(f"{root} has no folder named by a WordNet id (n01443537, ...); name the data set")
    images = sorted(split_by_name(root, wnids, _SPLIT_SEED), key=lambda image: image[2])
    # Where a user can read them; rewritten only when they changed.
    lists = [cache_folder() / "splits" / f"{request.info.name}-{split}.txt" for split in ("train", "test")]
    for path, of_test in zip(lists, (False, True), strict=True):
        text = "".join(f"{file}\n" for file, _, is_test in images if is_test == of_test)
        content = text.encode("utf-8", "backslashreplace")
        if not path.is_file() or path.read_bytes() != content:
            write_atomic(path, content)
    note = f"the 80/20 split is listed in {lists[0]} and {lists[1]}"
    return ImageFiles(root, images, _names(root, wnids), (note,))


def _names(root: Path, wnids: list[str]) -> tuple[str, ...]:
    lines = read_lines(root / "README.txt") if (root / "README.txt").is_file() else []
    names = {wnid: name.strip() for wnid, _, name in (line.partition(" ") for line in lines)}
    chosen = [names.get(wnid) or wnid for wnid in wnids]
    return tuple(chosen) if len(set(chosen)) == len(chosen) else tuple(wnids)


_ADDRESS = "https://people.eecs.berkeley.edu/~hendrycks/"
_VARIANTS = (
    ("imagenet-r", "art and renditions", 24_000, 6_000, "n01443537", "a61312130a589d0ca1a8fca1f2bd3337", 2),
    ("imagenet-a", "hard photographs", 6_000, 1_500, "n01498041", "c3e55429088dc681f30d81f4726b6595", 3),
)
STREAMS = tuple(
    StreamInfo(
        name=name,
        description=f"ImageNet-{name[-1].upper()}, {what}; fixed 80/20 split of each class",
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
        layout=Layout(folders=(name,), markers=(marker,), archives=(f"{name}.tar",)),
        # No SHA-256 of these archives could be confirmed; MD5 guards against damage, not against malice.
        downloads=(Download(f"{name}.tar", (f"{_ADDRESS}{name}.tar",), f"md5:{md5}"),),
        stand_in=StandIn.of_photographs(5, 40, 224, f",seed={seed}"),
    )
    for name, what, train_images, test_images, marker, md5, seed in _VARIANTS
)
