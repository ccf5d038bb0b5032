"""folder:PATH: the user's own images, a folder for each class; with train/ and test/, or split by a seed."""

from pathlib import Path

from gplasc.errors import UserError
from gplasc.streams.files import TEST_NAMES, ImageFiles, list_folders, list_images, split_by_name
from gplasc.streams.info import Request, StreamInfo


def _read(request: Request) -> ImageFiles:
    """List the images; classes are the folders' names, sorted.

    A folder `train` with class folders in it is the training split if a folder `test` (or val, valid,
    validation) is next to it; without one it is split by the seed.
    """
    root = request.path
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{root} {what}; write folder:PATH with a folder that has one folder for each class")
    train = root / "train"
    if not train.is_dir() or not list_folders(train):
        return _with_seeded_split(root, request.seed)
    test = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    if test is None:
        note = f"{root} has no test folder; images of train are held out for testing"
        return _with_seeded_split(train, request.seed, (note,))
    classes = _classes(train)
    for name in list_folders(test):
        if name not in classes:
            raise UserError(f"{test / name} has no counterpart in {train}; both need the same class folders")
    images = [
        (f"{part.name}/{name}/{file}", number, part is test)
        for part in (train, test)
        for number, name in enumerate(classes)
        if (part / name).is_dir()
        for file in list_images(part / name)
    ]
    return ImageFiles(root, images, tuple(classes), upright=True)


def _with_seeded_split(root: Path, seed: int, notes: tuple[str, ...] = ()) -> ImageFiles:
    classes = _classes(root)
    return ImageFiles(root, split_by_name(root, classes, seed), tuple(classes), notes, upright=True)


def _classes(root: Path) -> list[str]:
    classes = list_folders(root)
    if len(classes) < 2:
        raise UserError(f"{root} has {len(classes)} class folders, two are needed: {root}/CLASS/IMAGE.jpg")
    return classes


STREAMS = (
    StreamInfo(
        name="folder:PATH",
        description="your own images, one folder for each class",
        image_size=64,
        channels=3,
        read=_read,
        # Photographs of any kind: the constants of ImageNet.
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        size_is_setting=True,
    ),
)
