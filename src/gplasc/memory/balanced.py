"""Class-balanced memory with the quotas of Co2L."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gplasc.memory.buffer import Buffer


def balanced_update(
    memory: Buffer,
    y: Tensor,
    num_old_tasks: int,
    generator: torch.Generator,
    weights: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Select the rows to keep after a task (Co2L): indices into the memory and into the task's samples.

    The old classes are reduced to their quotas; the rest is divided among the classes of the new task. Inside a class
    rows are drawn without replacement, in proportion to weights of the samples, (N,), and of the memory's rows, (M,).
    """
    new_weights, old_weights = weights or (None, None)
    old_labels = memory.labels
    old_classes = old_labels.unique().tolist()
    kept = [torch.zeros(0, dtype=torch.long)]
    quotas = _old_quotas(num_old_tasks, memory.capacity, len(old_classes), generator)
    for label, quota in zip(old_classes, quotas, strict=True):
        kept.append(_draw((old_labels == label).nonzero().flatten(), quota, old_weights, generator))
    old = torch.cat(kept)[: memory.capacity]
    new_classes = y.unique().tolist()
    taken = [torch.zeros(0, dtype=torch.long)]
    rest = memory.capacity - len(old)
    for position, label in enumerate(new_classes):
        quota = _new_quota(rest, len(new_classes) - position, generator)
        taken.append(_draw((y == label).nonzero().flatten(), quota, new_weights, generator))
        rest -= len(taken[-1])
    return old, torch.cat(taken)


def _old_quotas(num_old_tasks: int, capacity: int, num_classes: int, generator: torch.Generator) -> list[int]:
    """Divide the old tasks' rows, capacity * s / (s + 1), among their classes, fractions rounded at random."""
    share = capacity * num_old_tasks / (num_old_tasks + 1) / max(num_classes, 1)
    whole = int(share)
    extra = torch.rand(num_classes, generator=generator, dtype=torch.float64) < share - whole
    return [whole + int(up) for up in extra]


def _new_quota(rest: int, num_classes: int, generator: torch.Generator) -> int:
    """Return the first class's share of the rest of the memory; called with what is left, the quotas add up to it."""
    whole, fraction = divmod(rest, num_classes)
    if fraction == 0:
        return whole
    return whole + int(torch.rand((), generator=generator, dtype=torch.float64) < fraction / num_classes)


def _draw(candidates: Tensor, count: int, weights: Tensor | None, generator: torch.Generator) -> Tensor:
    """Draw at most ``count`` of some row indices (K,) without replacement, uniformly or in proportion to weights."""
    if weights is None:
        return candidates[torch.randperm(len(candidates), generator=generator)[:count]]
    count = min(count, len(candidates))
    if count == 0:
        return candidates[:0]
    chosen = torch.multinomial(weights[candidates].clamp(min=1e-300), count, generator=generator)
    return candidates[chosen]
