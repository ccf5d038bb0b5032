"""features:PATH: features of a frozen encoder, as `gplasc features` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.reading import open_regular, read_text
from gplasc.errors import UserError
from gplasc.streams.files import ArrayFiles, Dataset, Split
from gplasc.streams.info import Request, StreamInfo

if TYPE_CHECKING:
    from torch import Tensor

INDEX = "features.json"


def part_name(task: int, split: str) -> str:
    """Return the name of the file of one split of one task."""
    return f"task-{task:04d}-{split}.safetensors"


def read_part(path: Path) -> tuple[Tensor, Tensor]:
    """Map one file: features (N, views, 1, D) and labels (N,)."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        open_regular(path).close()
        tensors = load_file(path)
        x, y = tensors["x"], tensors["y"]
        if x.ndim != 4 or not x.is_floating_point() or y.shape != x.shape[:1] or y.is_floating_point():
            raise ValueError(f"x is {x.dtype} {tuple(x.shape)}, y is {y.dtype} {tuple(y.shape)}")
        return x, y
    except (OSError, UserError, SafetensorError, KeyError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); run `gplasc features` again") from None


def read_index(folder: Path) -> dict[str, Any]:
    """Read what `gplasc features` wrote about a folder of features."""
    try:
        index: dict[str, Any] = json.loads(read_text(folder / INDEX))
        if index["format"] != 1:
            raise ValueError(f"format {index['format']!r:.99} is not known")
        counts, names = index["classes_per_task"], index["class_names"]
        whole = all(type(count) is int and count > 0 for count in counts) and isinstance(counts, list)
        if not whole or not all(type(name) is str for name in names) or not 0 < len(names) == sum(counts):
            raise ValueError("classes_per_task and class_names do not agree")
        return index
    except (UserError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{folder} holds no features ({error}); run `gplasc features`") from None


def _read(request: Request) -> ArrayFiles:
    folder, index = request.path, read_index(request.path)
    tasks, splits = range(len(index["classes_per_task"])), ("train", "test")
    train, test = ([folder / part_name(task, split) for task in tasks] for split in splits)
    return ArrayFiles(lambda: _load(index, (train, test)), (folder / INDEX, *train, *test))


def _load(index: dict[str, Any], parts: tuple[list[Path], list[Path]]) -> Dataset:
    """Return the features as a data set; validation samples are left out."""
    import torch

    names, counts = tuple(index["class_names"]), index["classes_per_task"]
    splits = []
    for paths in parts:
        x, y = zip(*map(read_part, paths), strict=True)
        labels = torch.cat(y)
        agree = len({part.shape[1:] for part in x}) == 1
        if not agree or not len(labels) or labels.min() < 0 or labels.max() >= len(names):
            raise UserError(f"the features in {paths[0].parent} do not agree; run `gplasc features` again")
        splits.append(Split(torch.cat(x), labels))
    train, test = splits
    return Dataset(train, test, names, (), (), classes_per_task=max(counts), features=True)


STREAMS = (StreamInfo("features:PATH", "features of a frozen encoder, made by `gplasc features`", _read),)
