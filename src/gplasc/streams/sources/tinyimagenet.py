"""seq-tinyimagenet from the official folder or zip. The labeled validation images serve as test split."""

from collections import Counter
from pathlib import Path

from gplasc.streams.files import ImageFiles, damaged, inside, list_images, read_lines
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import locate


def _read(request: Request) -> ImageFiles:
    """Classes are numbered as in wnids.txt and named as in words.txt."""
    root = locate(request)
    wnids = [inside(wnid, root / "wnids.txt") for wnid in read_lines(root / "wnids.txt")]
    numbers = {wnid: number for number, wnid in enumerate(wnids)}
    if len(numbers) != len(wnids):
        raise damaged(root / "wnids.txt", "names a class twice")
    for wnid in wnids:
        if not (root / "train" / wnid).is_dir():
            raise damaged(root / "train" / wnid, "is missing")
    images = [
        (f"train/{wnid}/{name}", number, False)
        for wnid, number in numbers.items()
        for name in list_images(root / "train" / wnid)
    ]
    images += sorted(_validation(root, numbers), key=lambda image: (image[1], image[0]))
    return ImageFiles(root, images, _names(root, wnids))


def _validation(root: Path, numbers: dict[str, int]) -> list[tuple[str, int, bool]]:
    path = root / "val" / "val_annotations.txt"
    images = []
    for line in read_lines(path):
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in numbers:
            raise damaged(path, f"has the line {line[:60]!r} without a known class")
        images.append((f"val/images/{inside(fields[0], path)}", numbers[fields[1]], True))
    return images


def _names(root: Path, wnids: list[str]) -> tuple[str, ...]:
    """The first word of each class ("goldfish"), with the id where two classes share it."""
    lines = read_lines(root / "words.txt") if (root / "words.txt").is_file() else []
    words = {wnid: text.split(",")[0].strip() for wnid, _, text in (line.partition("\t") for line in lines)}
    names = {wnid: words.get(wnid) or wnid for wnid in wnids}
    shared = Counter(names.values())
    return tuple(f"{name} ({wnid})" if shared[name] > 1 else name for wnid, name in names.items())


STREAMS = (
    StreamInfo(
        name="seq-tinyimagenet",
        description="Tiny-ImageNet-200; its validation images are the test split",
        tasks=10,
        classes_per_task=20,
        image_size=64,
        channels=3,
        read=_read,
        train_images=100_000,
        test_images=10_000,
        mean=(0.4802, 0.4480, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        size_is_setting=True,
        layout=Layout(("tiny-imagenet-200",), markers=("wnids.txt",), archives=("tiny-imagenet-200.zip",)),
        downloads=(
            Download(
                "tiny-imagenet-200.zip",
                ("https://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                "sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            ),
        ),
        stand_in=StandIn.of_photographs(10, 20, 64),
    ),
)
