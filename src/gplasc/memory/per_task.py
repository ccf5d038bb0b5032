"""A memory divided equally among groups: tasks (FDR, A-GEM, GCR) or classes (iCaRL)."""

from __future__ import annotations

import torch
from torch import Tensor


def equal_shares(total: int, count: int) -> Tensor:
    """Divide ``total`` rows among ``count`` groups: (count,) whole numbers that differ by at most 1 and sum to it.

    With one group more, no share grows: what is kept at a task's end never has to be found again.

    >>> equal_shares(200, 3).tolist()
    [67, 67, 66]
    """
    return total // count + (torch.arange(count) < total % count).long()


def rank_within(group: Tensor) -> Tensor:
    """Number the rows of each group in their order: (N,) group numbers to (N,) ranks from 0.

    >>> rank_within(torch.tensor([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    by_group, order = group.sort(stable=True)
    position = torch.arange(len(group))
    starts = torch.ones(len(group), dtype=torch.bool)
    torch.ne(by_group[1:], by_group[:-1], out=starts[1:])
    first = torch.where(starts, position, 0).cummax(0).values if len(group) else position
    rank = torch.empty_like(position)
    rank[order] = position - first
    return rank


def surplus(group: Tensor, share: Tensor, rank: Tensor | None = None) -> Tensor:
    """Return the rows that exceed their group's share: (N,) groups, (G,) shares, (N,) ranks, to (K,) indices.

    Without ranks, the rows that came first are kept.
    """
    rank = rank_within(group) if rank is None else rank
    return (rank >= share[group]).nonzero().flatten()
