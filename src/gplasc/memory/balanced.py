"""Class-balanced random memory with Co2L's quotas."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gplasc.memory.buffer import Buffer

Choose = Callable[[Tensor, int], Tensor]
"""From the candidates of one class, (K,) row indices, choose at most so many."""


def old_quotas(num_old_tasks: int, capacity: int, num_classes: int, generator: torch.Generator) -> list[int]:
    """Divide the part of the memory that old tasks keep, ``capacity * s / (s + 1)`` rows, among their classes.

    A fraction of a row is rounded up with the probability of the fraction, so that classes are equal on average.
    """
    share = capacity * num_old_tasks / (num_old_tasks + 1) / max(num_classes, 1)
    whole = int(share)
    extra = torch.rand(num_classes, generator=generator, dtype=torch.float64) < share - whole
    return [whole + int(up) for up in extra]


def new_quotas(rest: int, num_classes: int) -> list[int]:
    """Divide the rest of the memory among the classes of the task just learned, so that the sum is exact.

    >>> new_quotas(100, 3)
    [33, 33, 34]
    """
    quotas = []
    for remaining in range(num_classes, 0, -1):
        quotas.append(rest // remaining)
        rest -= quotas[-1]
    return quotas


def random_choice(generator: torch.Generator) -> Choose:
    """Choose uniformly without replacement."""
    return lambda candidates, count: candidates[torch.randperm(len(candidates), generator=generator)[:count]]


def balanced_update(
    memory: Buffer,
    y: Tensor,
    *,
    num_old_tasks: int,
    generator: torch.Generator,
    choose_old: Choose,
    choose_new: Choose,
) -> tuple[Tensor, Tensor]:
    """Decide what is kept after a task: indices into the memory and into the task's samples.

    The old classes shrink to their quotas; what is free is divided among the classes of the new task (Co2L). The
    caller writes the rows, because only it knows the further columns.
    """
    old_labels = memory["y"] if len(memory) else torch.zeros(0, dtype=torch.long)
    old_classes = old_labels.unique().tolist()
    kept = [torch.zeros(0, dtype=torch.long)]
    for label, quota in zip(
        old_classes, old_quotas(num_old_tasks, memory.capacity, len(old_classes), generator), strict=True
    ):
        kept.append(choose_old((old_labels == label).nonzero().flatten(), quota))
    old = torch.cat(kept)[: memory.capacity]
    new_classes = y.unique().tolist()
    taken = [torch.zeros(0, dtype=torch.long)]
    rest = memory.capacity - len(old)
    for position, label in enumerate(new_classes):
        quota = new_quotas(rest, len(new_classes) - position)[0]
        taken.append(choose_new((y == label).nonzero().flatten(), quota))
        rest -= len(taken[-1])
    return old, torch.cat(taken)
