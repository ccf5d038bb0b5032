"""A memory that is divided equally among groups: tasks (FDR, A-GEM, GCR) or classes (iCaRL)."""

import torch
from torch import Tensor


def equal_shares(total: int, count: int) -> Tensor:
    """Divide rows equally among groups: integers (count,) that differ by at most 1 and sum to `total`.

    With one more group no share becomes larger, so rows that were removed are never needed again.

    >>> equal_shares(200, 3).tolist()
    [67, 67, 66]
    """
    return total // count + (torch.arange(count) < total % count).long()


def _rank_within(group: Tensor) -> Tensor:
    """Number the rows of each group in their order: (N,) groups to (N,) ranks from 0.

    >>> _rank_within(torch.tensor([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    by_group, order = group.sort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(group)) - torch.searchsorted(by_group, by_group)
    return rank


def surplus(group: Tensor, share: Tensor, rank: Tensor | None = None) -> Tensor:
    """Return the rows that exceed the share of their group, those of the highest rank (by default: order)."""
    rank = _rank_within(group) if rank is None else rank
    return (rank >= share[group]).nonzero().flatten()
