"""cub200 from CUB_200_2011's folder or tgz, with its official split."""

from pathlib import Path

from gplasc.streams.files import ImageFiles, damaged, inside, read_lines
from gplasc.streams.info import Download, Layout, Request, StandIn, StreamInfo
from gplasc.streams.locate import locate


def _read(request: Request) -> ImageFiles:
    """Join the official lists by image id."""
    root = locate(request)
    names, files = _table(root / "classes.txt"), _table(root / "images.txt")
    labels, is_train = _table(root / "image_class_labels.txt"), _table(root / "train_test_split.txt")
    numbers = {identity: number for number, identity in enumerate(names)}
    for table, allowed, name in (
        (labels, numbers, "image_class_labels"),
        (is_train, ("0", "1"), "train_test_split"),
    ):
        wrong = next((value for value in table.values() if value not in allowed), None)
        if table.keys() != files.keys() or wrong is not None:
            what = "does not list the same images as images.txt" if wrong is None else f"holds {wrong!r}"
            raise damaged(root / f"{name}.txt", what)
    listed = root / "images.txt"
    images = [(inside(file, listed), numbers[labels[i]], is_train[i] == "0") for i, file in files.items()]
    # Stable: inside a class the order of the official list stays.
    images.sort(key=lambda image: (image[2], image[1]))
    return ImageFiles(root / "images", images, tuple(names.values()))


def _table(path: Path) -> dict[str, str]:
    """Read lines of "id value"."""
    table: dict[str, str] = {}
    for line in read_lines(path):
        identity, _, value = line.partition(" ")
        if not value or identity in table:
            raise damaged(path, f"has the line {line[:60]!r}, not a new number and a value")
        table[identity] = value.strip()
    return table


STREAMS = (
    StreamInfo(
        name="cub200",
        description="CUB-200-2011, photographs of 200 kinds of birds",
        tasks=5,
        classes_per_task=40,
        image_size=224,
        channels=3,
        read=_read,
        train_images=5_994,
        test_images=5_794,
        mean=(0.4856, 0.4994, 0.4324),
        std=(0.2272, 0.2226, 0.2613),
        size_is_setting=True,
        layout=Layout(
            folders=("CUB_200_2011",),
            markers=("image_class_labels.txt",),
            archives=("CUB_200_2011.tgz", "CUB_200_2011.tar.gz"),
        ),
        downloads=(
            Download(
                "CUB_200_2011.tgz",
                ("https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",),
                "sha256:0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
            ),
        ),
        stand_in=StandIn.of_photographs(5, 40, 224, ",seed=1"),
    ),
)
