"""parquet:PATH: images and labels in parquet files, as Hugging Face publishes data sets."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc.errors import UserError
from gplasc.streams.files import ArrayFiles, held_out_names, open_regular
from gplasc.streams.info import Request, StreamInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from gplasc.streams.dataset import Dataset

_IMAGES = ("image", "img", "images", "jpg", "png")
_LABELS = ("label", "labels", "fine_label", "class", "target", "cls")
_TEST_NAMES = ("test", "val", "valid", "validation")
_MOST_BYTES = 4 * 2**30  # of decoded images of one data set, which are kept in memory
_SMALL_BYTES = 256 * 2**20  # that a part of a file may always unpack to
_MOST_RATIO = 100  # of what a part unpacks to, to the size of the file
_ROWS = 8  # that are unpacked at a time; a value may be stored once and be meant many times


def _read(request: Request) -> ArrayFiles:
    """Find the parquet files: PATH itself, or those in the folder PATH or in its folder ``data``."""
    path = request.path
    paths = (
        [path] if path.is_file() else sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet"))
    )
    if not paths:
        raise UserError(
            f"{path} is no parquet file and no folder with parquet files; write parquet:PATH with one"
        )
    return ArrayFiles(lambda: _load(request, paths), paths)


def _load(request: Request, paths: list[Path]) -> Dataset:
    """Read one column of image bytes and one of labels.

    In a folder, files whose names begin with test (or val, valid, validation) are the test split and the others the
    training split; without such files a fifth of each class is held out, by the seed. Names of the classes are taken
    from the metadata that Hugging Face's ``datasets`` writes.
    """
    from gplasc.streams.arrays import dataset_of_images

    kinds = {path: path.name.replace("_", "-").partition("-")[0].removesuffix(".parquet") for path in paths}
    test_name = next((name for name in _TEST_NAMES if name in kinds.values()), None)
    train = [path for path in paths if kinds[path] not in _TEST_NAMES]
    if not train:
        raise UserError(
            f"{request.path} has test files but no training files; their names must begin with train"
        )
    names: list[str] | None = None
    splits = []
    for group in filter(None, (train, [path for path in paths if kinds[path] == test_name])):
        images: list[Tensor] = []
        labels: list[Any] = []
        for path in group:
            names = _read_file(path, request.image_size, images, labels) or names
        splits.append((images, _label_array(labels, request.path)))
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

    with open_regular(path) as file:
        try:
            table = parquet.ParquetFile(file)
            columns = _columns(table.schema_arrow, path)
            _check_sizes(table.metadata, path)
            total = sum(pixels.nbytes for pixels in images)
            for batch in table.iter_batches(batch_size=_ROWS, columns=list(columns)):
                for image, label in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                    content = image["bytes"] if isinstance(image, dict) else image
                    if content is None or label is None:
                        raise UserError(
                            f"{path}: row {len(labels)} has no image bytes or no label; leave it out"
                        )
                    name = f"{path}: image {len(labels)}"
                    images.append(decode_image(io.BytesIO(content), size, name, gray=True))
                    labels.append(label)
                    total += images[-1].nbytes
                    if total > _MOST_BYTES:
                        raise UserError(
                            f"{path} decodes to more than {_MOST_BYTES >> 30} GB; "
                            "set data.image_size to make images smaller"
                        )
            return _class_names(table.schema_arrow, columns[1])
        except (pyarrow.ArrowException, OSError, KeyError) as error:
            reason = str(error).split("\n")[0][:120]
            raise UserError(f"{path} cannot be read ({reason}); write it again") from error


def _check_sizes(metadata: Any, path: Path) -> None:
    """Refuse a file that says that it unpacks to far more than it holds."""
    most = max(_SMALL_BYTES, _MOST_RATIO * path.stat().st_size)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in range(group.num_columns):
            if group.column(column).total_uncompressed_size > most:
                raise UserError(
                    f"{path} unpacks to more than {most >> 20} MB at once; write it with smaller row groups"
                )


def _columns(schema: Any, path: Path) -> tuple[str, str]:
    """Return the names of the columns with the images and with the labels."""
    image = next((name for name in _IMAGES if name in schema.names), None)
    label = next((name for name in _LABELS if name in schema.names), None)
    if image is None or label is None:
        raise UserError(
            f"{path} has the columns {', '.join(schema.names)}; it needs one of {', '.join(_IMAGES)} with the bytes of "
            f"image files and one of {', '.join(_LABELS)}"
        )
    kind = schema.field(image).type
    if not (str(kind) in ("binary", "large_binary") or str(kind).startswith("struct<bytes: ")):
        raise UserError(
            f"{path}: the column {image} has the type {kind}; the bytes of image files are needed"
        )
    return image, label


def _class_names(schema: Any, label: str) -> list[str] | None:
    try:
        about = json.loads((schema.metadata or {})[b"huggingface"])
        names = about["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


def _label_array(labels: list[Any], path: Path) -> NDArray[Any]:
    import numpy as np

    array = np.array(labels)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise UserError(f"{path} has labels of type {array.dtype}; whole numbers or text are needed")
    return array


def _split(
    images: list[Tensor], labels: NDArray[Any], request: Request
) -> list[tuple[list[Tensor], NDArray[Any]]]:
    """Split by the seed, class by class."""
    import numpy as np

    is_test = np.zeros(len(labels), np.bool_)
    for value in np.unique(labels):
        rows = [str(row) for row in np.flatnonzero(labels == value)]
        if len(rows) < 2:
            raise UserError(
                f"{request.path}: class {value} has one image; two are needed, one of them for testing"
            )
        is_test[[int(row) for row in held_out_names(rows, request.seed)]] = True
    return [
        ([images[row] for row in np.flatnonzero(chosen)], labels[chosen]) for chosen in (~is_test, is_test)
    ]


STREAMS = (
    StreamInfo(
        name="parquet:PATH",
        description="parquet files with image bytes and labels, as Hugging Face publishes them",
        tasks=None,
        classes_per_task=2,
        image_size=None,
        channels=None,
        read=_read,
        size_is_setting=True,
    ),
)
