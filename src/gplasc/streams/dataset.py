"""How a data set is cut into a stream of tasks."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from gplasc.errors import UserError
from gplasc.random import Generators
from gplasc.streams._storage import MappedImages
from gplasc.streams.files import Dataset, Split
from gplasc.streams.stream import Samples, Stream, TaskPlan

_COUNT = (Integral, lambda number: number >= 1, "a whole number, at least 1")
_ALLOWED: tuple[tuple[str, type, Callable[[Any], bool], str], ...] = (
    ("images_per_class", *_COUNT),
    ("test_images_per_class", *_COUNT),
    ("fraction", Real, lambda share: 0 < share <= 1, "a number above 0 and at most 1"),
    ("validation", Real, lambda share: 0 <= share < 1, "a number, at least 0 and below 1"),
)


@dataclass(frozen=True)
class Budget:
    """How much of each class is used: everything, unless a number or a share says less.

    Attributes:
        images_per_class: Training images of each class.
        fraction: Share of the training images of each class, in place of a number; at least one is used.
        test_images_per_class: Test images of each class.
        validation: Share of these training images that is held out; at least one, where there are two.
    """

    images_per_class: int | None = None
    fraction: float | None = None
    test_images_per_class: int | None = None
    validation: float = 0.0

    def __post_init__(self) -> None:
        if self.images_per_class is not None and self.fraction is not None:
            raise UserError("images_per_class and fraction were both given; give one of them")
        for name, kind, allowed, words in _ALLOWED:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, kind) and allowed(value)):
                raise UserError(f"{name} is {value!r}; it must be {words}")

    def train(self, count: int) -> int:
        """Return how many of `count` training images of a class are used."""
        if self.fraction is not None:
            return min(count, max(1, round(self.fraction * count)))
        return min(self.images_per_class or count, count)

    def test(self, count: int) -> int:
        """Return how many of `count` test images of a class are used."""
        return min(self.test_images_per_class or count, count)

    def held_out(self, count: int) -> int:
        """Return how many of `count` training images of a class that are used are held out for validation."""
        return min(count - 1, max(1, round(self.validation * count))) if self.validation else 0


_EVERYTHING = Budget()


def build_stream(
    name: str,
    dataset: Dataset,
    *,
    classes_per_task: int | Sequence[int],
    class_order: Sequence[int] | None = None,
    class_order_seed: int | None = None,
    budget: Budget = _EVERYTHING,
    seed: int = 0,
) -> Stream:
    """Cut a data set into tasks.

    Which images a budget keeps depends on the seed and the class alone, not on the order of the classes; a
    larger budget keeps those of a smaller one and adds to them. Validation images are taken from what the
    budget leaves. The arguments are those of `open_stream`.

    Raises:
        UserError: If a setting is not allowed, or a class has no training image.
    """
    order = _class_order(len(dataset.class_names), class_order, class_order_seed)
    labels = dataset.train.labels
    counts = labels.bincount(minlength=len(dataset.class_names))
    for number in order:
        if not counts[number]:
            raise UserError(f"class {dataset.class_names[number]!r} of {name} has no training image")
    sizes = _task_sizes(len(order), classes_per_task)
    used = sample_rows(labels, budget.train, seed, "train").nonzero().flatten()
    held_out = sample_rows(labels[used], budget.held_out, seed, "validation")
    tested = sample_rows(dataset.test.labels, budget.test, seed, "test").nonzero().flatten()
    places = torch.full_like(counts, len(order))
    places[order] = torch.arange(len(order))
    train = _cut(dataset.train, used[~held_out], places, sizes)
    test = _cut(dataset.test, tested, places, sizes)
    held = _cut(dataset.train, used[held_out], places, sizes)
    parts = zip(train, test, held if budget.validation else [None] * len(sizes), strict=True)
    names = iter(dataset.class_names[number] for number in order)
    plans = [TaskPlan(tuple(itertools.islice(names, n)), *part) for n, part in zip(sizes, parts, strict=True)]
    _, channels, height, width = dataset.train.images.shape
    return Stream(
        name,
        plans,
        image_shape=(channels, height, width),
        mean=dataset.mean,
        std=dataset.std,
        notes=dataset.notes,
        features=dataset.features,
    )


def check_image_size(size: Any) -> None:
    """Check the width and height to which images are resized."""
    if size is not None and not (isinstance(size, Integral) and 4 <= int(size) <= 1024):
        raise UserError(f"image_size is {size!r}; it must be a whole number from 4 to 1024")


def sample_rows(labels: Tensor, count: Callable[[int], int], seed: int, name: str) -> Tensor:
    """Draw rows of each class of labels (N,) at random, and return which were drawn: (N,) bool.

    `count` says how many rows of a class are drawn, given how many it has; each class has a generator of its own,
    whose name begins with `name`.
    """
    drawn = torch.zeros(len(labels), dtype=torch.bool)
    by_class = labels.argsort(stable=True).split(labels.bincount().tolist())
    for label, rows in enumerate(by_class):
        order = torch.randperm(len(rows), generator=Generators(seed)[f"{name}/{label}"])
        drawn[rows[order[: max(0, count(len(rows)))]]] = True
    return drawn


def _class_order(count: int, order: Sequence[int] | None, seed: int | None) -> list[int]:
    if order is not None and seed is not None:
        raise UserError("class_order and class_order_seed were both given; give one of them")
    if seed is not None:
        return torch.randperm(count, generator=Generators(seed)["class order"]).tolist()
    if order is None:
        return list(range(count))
    chosen = _whole_numbers(order)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(count)):
        allowed = f"numbers from 0 to {count - 1}, each at most once"
        raise UserError(f"class_order is {order!r:.99}; list {allowed}")
    return chosen


def _whole_numbers(values: Any) -> list[int]:
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        return []


def _task_sizes(count: int, wanted: int | Sequence[int]) -> list[int]:
    if isinstance(wanted, int) and 1 <= wanted <= count:
        # A number of classes that does not divide leaves a smaller last task.
        return [min(wanted, count - start) for start in range(0, count, wanted)]
    sizes = _whole_numbers(wanted)
    if min(sizes, default=0) < 1 or sum(sizes) != count:
        raise UserError(
            f"classes_per_task is {wanted!r}; it must be a whole number from 1 to {count}, the number of classes, or "
            f"positive numbers, one for each task, that add up to {count}"
        )
    return sizes


def _take(images: Tensor | MappedImages, rows: slice | Tensor, labels: Tensor) -> Samples:
    """Return the rows: a view where they lie in one piece, else a copy."""
    if isinstance(images, Tensor):
        return Samples(images[rows], labels)
    x, mapping = images.read(rows)
    return Samples(x, labels, mapping)


def _cut(split: Split, rows: Tensor, places: Tensor, sizes: Sequence[int]) -> list[Callable[[], Samples]]:
    """Return the rows of each task, sorted by the place of their class in the stream.

    Images in memory are put into this order once, so that all tasks are views of one tensor; images in a file
    stay where they are.
    """
    sorted_places, order = places[split.labels[rows]].sort(stable=True)
    starts = [0, *itertools.accumulate(sizes)]
    ends = torch.searchsorted(sorted_places, torch.tensor(starts)).tolist()
    order = rows[order[: ends[-1]]]
    order = order if split.rows is None else split.rows[order]
    images = split.images
    if isinstance(images, Tensor):
        images = images[_as_slice(order)]
    parts: list[Callable[[], Samples]] = []
    for (start, end), first in zip(itertools.pairwise(ends), starts[:-1], strict=True):
        chosen = slice(start, end) if isinstance(images, Tensor) else _as_slice(order[start:end])
        parts.append(partial(_take, images, chosen, sorted_places[start:end] - first))
    return parts


def _as_slice(rows: Tensor) -> slice | Tensor:
    """Turn (N,) int64 row numbers into a slice where they are consecutive, so that a view will do."""
    if len(rows) and bool((rows[1:] - rows[:-1] == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
