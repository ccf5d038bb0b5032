"""Class-balanced memory with the quotas of Co2L."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gplasc.memory.buffer import Buffer

Choose = Callable[[Tensor, int], Tensor]
"""From the candidates of one class, row indices of shape (K,), select at most so many."""


def _old_quotas(num_old_tasks: int, capacity: int, num_classes: int, generator: torch.Generator) -> list[int]:
    """Divide the rows of the s old tasks, ``capacity * s / (s + 1)``, among their classes.

    A fraction of a row is rounded up with the probability of the fraction, so that classes are equal on average.
    """
    share = capacity * num_old_tasks / (num_old_tasks + 1) / max(num_classes, 1)
    whole = int(share)
    extra = torch.rand(num_classes, generator=generator, dtype=torch.float64) < share - whole
    return [whole + int(up) for up in extra]


def _new_quota(rest: int, num_classes: int, generator: torch.Generator) -> int:
    """Return the first class's share of the rest of the memory, which ``num_classes`` classes divide among them.

    A fraction of a row is rounded up with the probability of the fraction. Called with what is left and the classes
    that are left, the quotas add up to the rest.
    """
    whole, fraction = divmod(rest, num_classes)
    if fraction == 0:
        return whole
    return whole + int(torch.rand((), generator=generator, dtype=torch.float64) < fraction / num_classes)


def random_choice(generator: torch.Generator) -> Choose:
    """Return a rule that selects uniformly without replacement.

    Args:
        generator: The generator of the selection.

    Returns:
        The rule.
    """
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
    """Select the rows to keep after a task (Co2L).

    The old classes are reduced to their quotas; the rest is divided among the classes of the new task. The caller
    writes the rows, since only it knows the other columns.

    Args:
        memory: The memory, with a column "y".
        y: The labels of the task's samples, shape (N,).
        num_old_tasks: The number of tasks in the memory.
        generator: The generator of the quotas.
        choose_old: The rule for rows of the memory.
        choose_new: The rule for samples of the task.

    Returns:
        Indices into the memory and into the task's samples.
    """
    old_labels = memory["y"] if len(memory) else torch.zeros(0, dtype=torch.long)
    old_classes = old_labels.unique().tolist()
    kept = [torch.zeros(0, dtype=torch.long)]
    for label, quota in zip(
        old_classes, _old_quotas(num_old_tasks, memory.capacity, len(old_classes), generator), strict=True
    ):
        kept.append(choose_old((old_labels == label).nonzero().flatten(), quota))
    old = torch.cat(kept)[: memory.capacity]
    new_classes = y.unique().tolist()
    taken = [torch.zeros(0, dtype=torch.long)]
    rest = memory.capacity - len(old)
    for position, label in enumerate(new_classes):
        quota = _new_quota(rest, len(new_classes) - position, generator)
        taken.append(choose_new((y == label).nonzero().flatten(), quota))
        rest -= len(taken[-1])
    return old, torch.cat(taken)
