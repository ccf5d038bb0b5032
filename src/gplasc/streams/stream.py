"""What a learner sees: a stream of tasks, each with images of classes that were not there before."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from gplasc.streams._storage import Mapping


@dataclass(frozen=True)
class Samples:
    """Images and labels of one split.

    Attributes:
        x: (N, C, H, W) uint8, in memory or a view of a memory-mapped file.
        y: (N,) int64.
        mapping: The file that `x` is a view of, if it is one.
    """

    x: Tensor
    y: Tensor
    mapping: Mapping | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Tensor) -> Samples:
        """Return a copy of the rows `index`, (K,) int64 or (N,) bool, in memory.

        Of a memory-mapped split only a bounded number of pages stays resident, however often this is called.
        """
        rows = index.nonzero().flatten() if index.dtype == torch.bool else index
        taken = Samples(self.x.index_select(0, rows), self.y.index_select(0, rows))
        if self.mapping is not None:
            self.mapping.touched(taken.x.numel())
        return taken


@dataclass(frozen=True)
class Task:
    """One step of a stream: its number, from 0, the range of its labels with their names, and its samples.

    `validation` is the part of the training samples that is held out, if any is.
    """

    index: int
    classes: range
    class_names: tuple[str, ...]
    train: Samples
    test: Samples
    validation: Samples | None = None


@dataclass(frozen=True)
class TaskPlan:
    """A task before it is read: functions that read its splits, whose labels are counted from 0 inside the task."""

    class_names: tuple[str, ...]
    train: Callable[[], Samples]
    test: Callable[[], Samples]
    validation: Callable[[], Samples] | None = None


class Stream(Sequence[Task]):
    """A sequence of tasks: `for task in stream`, `len(stream)`, `stream[2]`, `stream[:3]`.

    Labels run from 0 in order of appearance, in slices too. A task is read when it is asked for and forgotten
    when nobody holds it, so that a stream larger than the memory can be walked through.

    Attributes:
        name: The name it was opened by.
        image_shape: (channels, height, width).
        mean: The mean per channel of images scaled to 0..1.
        std: The standard deviation per channel.
        notes: What the user should know, such as skipped files.
        features: Whether samples are features of a frozen encoder: (views, 1, D) in place of images.
    """

    def __init__(
        self,
        name: str,
        plans: Sequence[TaskPlan],
        *,
        image_shape: tuple[int, int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        notes: tuple[str, ...] = (),
        features: bool = False,
    ) -> None:
        self.name = name
        self.features = features
        self.image_shape = image_shape
        self.mean = mean
        self.std = std
        self.notes = notes
        self._plans = tuple(plans)
        self._alive: WeakValueDictionary[int, Task] = WeakValueDictionary()

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """All classes, in order of appearance: ``class_names[label]``."""
        return tuple(name for plan in self._plans for name in plan.class_names)

    @property
    def num_classes(self) -> int:
        """The number of classes of all tasks together."""
        return len(self.class_names)

    @property
    def classes_per_task(self) -> tuple[int, ...]:
        """The number of classes of each task."""
        return tuple(len(plan.class_names) for plan in self._plans)

    def __len__(self) -> int:
        return len(self._plans)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Stream: ...
    def __getitem__(self, index: int | slice) -> Task | Stream:
        if isinstance(index, slice):
            part = copy.copy(self)
            part._plans = self._plans[index]
            return part
        number = range(len(self))[index]  # negative indices and IndexError as for a list
        task = self._alive.get(number)
        if task is None:
            task = self._read(number)
            self._alive[number] = task
        return task

    def _read(self, number: int) -> Task:
        plan, first = self._plans[number], sum(self.classes_per_task[:number])
        classes = range(first, first + len(plan.class_names))

        def samples(read: Callable[[], Samples]) -> Samples:
            part = read()
            return replace(part, y=part.y + first)

        parts = samples(plan.train), samples(plan.test), plan.validation and samples(plan.validation)
        return Task(number, classes, plan.class_names, *parts)

    # Copies and pickles are without the tasks that were read, and without what follows from all tasks.

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_alive", "class_names")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._alive = WeakValueDictionary()

    def __repr__(self) -> str:
        sizes = self.classes_per_task
        classes = str(sizes[0]) if len(set(sizes)) == 1 else "+".join(map(str, sizes))
        shape = "x".join(map(str, self.image_shape))
        return f"Stream({self.name!r}, {len(self)} tasks of {classes} classes, images {shape})"
