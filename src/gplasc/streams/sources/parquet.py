"""parquet:PATH: images and labels in parquet files, as Hugging Face publishes data sets."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.reading import open_regular
from gplasc.errors import UserError
from gplasc.streams.files import TEST_NAMES, ArrayFiles, Dataset, held_out_names
from gplasc.streams.info import Request, StreamInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    _Images = tuple[list[Tensor], NDArray[Any]]  # with their labels

_IMAGES = ("image", "img", "images", "jpg", "png")
_LABELS = ("label", "labels", "fine_label", "class", "target", "cls")
_MOST_BYTES = 4 * 2**30  # of decoded images of one data set, which are kept in memory
# What a file of a few bytes may unpack to, and a larger one for each of its bytes.
_SMALL_BYTES, _MOST_RATIO = 64 * 2**20, 8
_SMALL_PIXELS, _PIXELS_PER_BYTE = 500 * 10**6, 500
_FEW_ROWS, _LONGEST_LABEL = 10_000, 1000


def _read(request: Request) -> ArrayFiles:
    """Find the parquet files: PATH itself, or those in the folder PATH or in its folder ``data``."""
    path = request.path
    files = sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet"))
    paths = [path] if path.is_file() else files
    if not paths:
        raise UserError(f"{path} is no parquet file and no folder with some; write parquet:PATH with one")
    return ArrayFiles(lambda: _load(request, paths), paths)


def _load(request: Request, paths: list[Path]) -> Dataset:
    """Read one column of image bytes and one of labels; the names of files tell the split, or the seed decides."""
    import numpy as np

    from gplasc.streams.arrays import dataset_of_images

    kinds = {path: path.name.replace("_", "-").partition("-")[0].removesuffix(".parquet") for path in paths}
    test_name = next((name for name in TEST_NAMES if name in kinds.values()), None)
    train = [path for path in paths if kinds[path] not in TEST_NAMES]
    if not train:
        raise UserError(f"{request.path} has no training files; let their names begin with train")
    names: list[str] | None = None
    splits = []
    for group in filter(None, (train, [path for path in paths if kinds[path] == test_name])):
        images: list[Tensor] = []
        labels: list[Any] = []
        for path in group:
            names = _read_file(path, request.image_size, images, labels) or names
        values = np.array(labels)
        if values.ndim != 1 or values.dtype.kind not in "iuU":
            what = f"labels of type {values.dtype}; whole numbers or text are needed"
            raise UserError(f"{request.path} has {what}")
        splits.append((images, values))
    if not test_name:
        splits = _split(*splits[0], request)
    if names is not None:  # only those that occur, in the order of the labels
        occurring = sorted({int(label) for label in splits[0][1]})
        names = [names[label] for label in occurring if label in range(len(names))]
    return dataset_of_images(splits, names, str(request.path))


def _read_file(path: Path, size: int | None, images: list[Tensor], labels: list[Any]) -> list[str] | None:
    """Append what a file holds, and return the names of its classes if it has them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("parquet files need pyarrow: pip install pyarrow") from None
    from gplasc.streams.decode import decode_image

    pixels_left = max(_SMALL_PIXELS, _PIXELS_PER_BYTE * path.stat().st_size)
    bytes_left = _MOST_BYTES - sum(pixels.nbytes for pixels in images)

    def spend(pixels: int) -> None:
        nonlocal pixels_left
        pixels_left -= pixels
        if pixels_left < 0:
            raise UserError(f"{path} holds images of far more pixels than its size explains; write it again")

    with open_regular(path) as file:
        try:
            table = parquet.ParquetFile(file)
            columns = _columns(table.schema_arrow, path)
            rows = _rows_at_once(table.metadata, path)
            for batch in table.iter_batches(batch_size=rows, columns=list(columns)):
                for image, label in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                    content = image["bytes"] if isinstance(image, dict) else image
                    if content is None or label is None or len(str(label)) > _LONGEST_LABEL:
                        what = f"row {len(labels)} has no image bytes, no label or one that is too long"
                        raise UserError(f"{path}: {what}; leave it out")
                    name = f"{path}: image {len(labels)}"
                    images.append(decode_image(io.BytesIO(content), size, name, gray=True, spend=spend))
                    labels.append(label)
                    bytes_left -= images[-1].nbytes
                    if bytes_left < 0:
                        raise UserError(f"{path} decodes to more than {_MOST_BYTES >> 30} GB; set image_size")
            return _class_names(table.schema_arrow, columns[1])
        except (pyarrow.ArrowException, OSError, KeyError) as error:
            reason = str(error).split("\n")[0][:120]
            raise UserError(f"{path} cannot be read ({reason}); write it again") from error


def _rows_at_once(metadata: Any, path: Path) -> int:
    """Return how many rows may be unpacked at a time: a value may be stored once and be meant many times."""
    size = path.stat().st_size
    # Not the sizes of the columns: pyarrow ends the process if the statistics of one are damaged.
    groups = range(metadata.num_row_groups)
    largest = max((metadata.row_group(number).total_byte_size for number in groups), default=0)
    if largest > max(_SMALL_BYTES, _MOST_RATIO * size) or metadata.num_rows > max(_FEW_ROWS, size // 8):
        raise UserError(
            f"{path} has {size:,} bytes and unpacks to more than they explain: {metadata.num_rows:,} rows, up to "
            f"{largest >> 20} MB of them at once; write it again, with smaller row groups"
        )
    return max(1, min(64, _SMALL_BYTES // max(1, largest)))


def _columns(schema: Any, path: Path) -> tuple[str, str]:
    """Return the names of the columns with the images and with the labels."""
    image = next((name for name in _IMAGES if name in schema.names), None)
    label = next((name for name in _LABELS if name in schema.names), None)
    if image is None or label is None:
        raise UserError(
            f"{path} has the columns {', '.join(schema.names)}; it needs one of {', '.join(_IMAGES)} with the bytes of "
            f"image files and one of {', '.join(_LABELS)}"
        )
    kind = str(schema.field(image).type)
    if not kind.startswith(("binary", "large_binary", "struct<bytes: ")):
        raise UserError(f"{path}: the column {image} has the type {kind}; bytes of image files are needed")
    return image, label


def _class_names(schema: Any, label: str) -> list[str] | None:
    try:
        about = json.loads((schema.metadata or {})[b"huggingface"])
        names = about["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


def _split(images: list[Tensor], labels: NDArray[Any], request: Request) -> list[_Images]:
    """Split by the seed, class by class."""
    tested: set[int] = set()
    for value in set(labels.tolist()):
        rows = [str(row) for row in (labels == value).nonzero()[0]]
        if len(rows) < 2:
            raise UserError(f"{request.path}: class {value} has one image; give two, one for testing")
        tested |= set(map(int, held_out_names(rows, request.seed)))
    parts = [row for row in range(len(labels)) if row not in tested], sorted(tested)
    return [([images[row] for row in part], labels[part]) for part in parts]


STREAMS = (
    StreamInfo(
        name="parquet:PATH",
        description="parquet files with image bytes and labels, as Hugging Face publishes them",
        read=_read,
        size_is_setting=True,
    ),
)
