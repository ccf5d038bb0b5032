"""Reservoir sampling: at any time each sample offered so far is in the memory with the same probability."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gplasc.memory.buffer import Buffer


def _reservoir_slots(
    seen: int, count: int, capacity: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Select which of ``count`` samples enter a memory that was offered ``seen`` before: positions and slots, (K,).

    Sample number n, counted from 0, takes slot n while there is room; after that slot r ~ U{0..n} if r is below the
    capacity. If two samples have the same slot, the later one remains, as if they had been offered one by one.
    """
    free = max(min(capacity - seen, count), 0)
    # In numpy: for few numbers the calls dominate, and those of torch take several times as long.
    drawn = torch.rand(count - free, generator=generator, dtype=torch.float64).numpy()
    late = (drawn * np.arange(seen + free + 1, seen + count + 1)).astype(np.int64)
    entering = np.flatnonzero(late < capacity)
    slots = np.concatenate([np.arange(seen, seen + free), late[entering]])
    position = np.concatenate([np.arange(free), entering + free])
    if len(entering) and len(slots) > 1:
        # Of several samples with the same slot the last one, which is the first in reverse.
        slots, last = np.unique(slots[::-1], return_index=True)
        position = position[::-1][last]
    return torch.from_numpy(position), torch.from_numpy(slots)


def offer(memory: Buffer, rows: Mapping[str, Tensor], generator: torch.Generator) -> None:
    """Offer rows, columns of shape (N, ...) with "y" among them, to a memory that is a reservoir."""
    count = len(rows["y"])
    position, slots = _reservoir_slots(memory.seen, count, memory.capacity, generator)
    memory.seen += count
    if len(slots):
        entering = {name: value.index_select(0, position.to(value.device)) for name, value in rows.items()}
        memory.write(slots, entering)
