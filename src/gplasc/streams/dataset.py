"""A whole data set, as its files give it, and how it is cut into a stream of tasks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gplasc.errors import UserError
from gplasc.random import Generators
from gplasc.streams.storage import MappedImages
from gplasc.streams.stream import Selection, Stream, TaskPlan, as_rows


@dataclass(frozen=True)
class Split:
    """Images, (M, C, H, W) uint8 in memory or in a file, and labels, (N,) int64, as the data set numbers
    them.

    rows: (N,) int64, which image each label belongs to; None: the images in their order, N = M.
    """

    images: Tensor | MappedImages
    labels: Tensor
    rows: Tensor | None = None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        _, channels, height, width = self.images.shape
        return channels, height, width


@dataclass(frozen=True)
class Dataset:
    """What a reader returns: two splits, the names of the classes, constants, and notes for the user.

    classes_per_task is the default where it is not the catalog's; features says that they take the place of images.
    """

    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()
    classes_per_task: int | None = None
    features: bool = False


@dataclass(frozen=True)
class Budget:
    """How much of each class is used: a number of images, or a fraction, or (both None) everything."""

    images_per_class: int | None = None
    fraction: float | None = None

    def __post_init__(self) -> None:
        if self.images_per_class is not None and self.fraction is not None:
            raise UserError("images_per_class and fraction were both given; give one of them")
        if self.images_per_class is not None and self.images_per_class < 1:
            raise UserError(f"images_per_class is {self.images_per_class}; it must be at least 1")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise UserError(f"fraction is {self.fraction}; it must be above 0 and at most 1")

    def of(self, count: int) -> int:
        """How many of `count` images are used: at least one, where there is one."""
        if self.images_per_class is not None:
            return min(self.images_per_class, count)
        if self.fraction is not None:
            return min(count, max(1, round(self.fraction * count)))
        return count


def build_stream(
    name: str,
    dataset: Dataset,
    *,
    classes_per_task: int | Sequence[int],
    class_order: Sequence[int] | None = None,
    class_order_seed: int | None = None,
    train_budget: Budget | None = None,
    test_budget: Budget | None = None,
    validation: float = 0.0,
    seed: int = 0,
) -> Stream:
    """Cut a data set into tasks.

    Which images a budget keeps depends on the seed and the class alone, not on the order of the classes; a
    larger budget keeps those of a smaller one and adds to them. Validation images are taken from what the
    budget leaves. The arguments are those of `open_stream`.

    Raises:
        UserError: If a setting is not allowed, or a class has no training image.
    """
    if not 0 <= validation < 1:
        raise UserError(f"validation is {validation}; it must be at least 0 and below 1")
    order = _class_order(len(dataset.class_names), class_order, class_order_seed)
    train = _rows_by_class(dataset.train, train_budget or Budget(), len(dataset.class_names), seed, "train")
    test = _rows_by_class(dataset.test, test_budget or Budget(), len(dataset.class_names), seed, "test")
    for number in order:
        if not len(train[number]):
            raise UserError(f"class {dataset.class_names[number]!r} of {name} has no training image")
    held_out: dict[int, Tensor] = {}
    if validation:
        for number in order:
            train[number], held_out[number] = _hold_out(train[number], validation, seed, number)

    tasks: list[list[int]] = []
    for size in _task_sizes(len(order), classes_per_task):
        done = sum(map(len, tasks))
        tasks.append(order[done : done + size])
    selections = [_select(dataset.train, train, tasks), _select(dataset.test, test, tasks)]
    held_out_selections = _select(dataset.train, held_out, tasks) if validation else [None] * len(tasks)
    plans = [
        TaskPlan(tuple(dataset.class_names[number] for number in task), *parts)
        for task, *parts in zip(tasks, *selections, held_out_selections, strict=True)
    ]
    return Stream(
        name,
        plans,
        image_shape=dataset.train.image_shape,
        mean=dataset.mean,
        std=dataset.std,
        notes=dataset.notes,
        features=dataset.features,
    )


def _class_order(count: int, order: Sequence[int] | None, seed: int | None) -> list[int]:
    if order is not None and seed is not None:
        raise UserError("class_order and class_order_seed were both given; give one of them")
    if seed is not None:
        return torch.randperm(count, generator=Generators(seed)["class order"]).tolist()
    if order is None:
        return list(range(count))
    chosen = [int(number) for number in order]
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(count)):
        raise UserError(
            f"class_order is {chosen}; it must list class numbers from 0 to {count - 1}, each at most once"
        )
    return chosen


def _task_sizes(count: int, wanted: int | Sequence[int]) -> list[int]:
    if isinstance(wanted, int):
        if not 1 <= wanted <= count:
            raise UserError(
                f"classes_per_task is {wanted}; it must be from 1 to {count}, the number of classes"
            )
        # A number of classes that does not divide leaves a smaller last task.
        return [min(wanted, count - start) for start in range(0, count, wanted)]
    try:
        sizes = [operator.index(size) for size in wanted]
    except TypeError:
        raise UserError(
            f"classes_per_task is {wanted!r}; it must be a whole number, or one for each task"
        ) from None
    if any(size < 1 for size in sizes) or sum(sizes) != count:
        raise UserError(
            f"classes_per_task is {sizes}; the numbers must be positive and add up to {count} classes"
        )
    return sizes


def _rows_by_class(split: Split, budget: Budget, count: int, seed: int, purpose: str) -> dict[int, Tensor]:
    """Row numbers of each class, ascending, at most what the budget allows."""
    by_label = torch.argsort(split.labels, stable=True)
    ends = torch.bincount(split.labels, minlength=count).cumsum(0).tolist()
    rows: dict[int, Tensor] = {}
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        own = by_label[start:end]
        keep = budget.of(len(own))
        if keep < len(own):
            drawn = torch.randperm(len(own), generator=Generators(seed)[f"{purpose}/{number}"])[:keep]
            own = own[drawn.sort().values]
        rows[number] = own if split.rows is None else split.rows[own]
    return rows


def _hold_out(rows: Tensor, fraction: float, seed: int, number: int) -> tuple[Tensor, Tensor]:
    """Split a class's rows into (kept, validation): at least one of each, where there are two."""
    count = min(len(rows) - 1, max(1, round(fraction * len(rows))))
    drawn = torch.randperm(len(rows), generator=Generators(seed)[f"validation/{number}"])
    return rows[drawn[count:].sort().values], rows[drawn[:count].sort().values]


def _select(split: Split, rows: dict[int, Tensor], tasks: Sequence[Sequence[int]]) -> list[Selection]:
    """One selection a task, its rows sorted by class.

    Images in memory are put into this order once, so that all tasks are views of one tensor; images in a file
    stay where they are.
    """
    orders = [torch.cat([rows[number] for number in task]) for task in tasks]
    labels = [torch.repeat_interleave(torch.tensor([len(rows[number]) for number in task])) for task in tasks]
    if not isinstance(split.images, Tensor):
        return [
            Selection(split.images, as_rows(order), local)
            for order, local in zip(orders, labels, strict=True)
        ]
    every = as_rows(torch.cat(orders))
    sorted_images = split.images[every]
    ends = torch.tensor([0, *map(len, orders)]).cumsum(0).tolist()
    return [
        Selection(sorted_images, slice(start, end), local)
        for start, end, local in zip(ends[:-1], ends[1:], labels, strict=True)
    ]
