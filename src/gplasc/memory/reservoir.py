"""Reservoir: at any time every sample offered so far is in the memory with the same probability."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gplasc.memory.buffer import Buffer


def reservoir_slots(
    seen: int, count: int, capacity: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Decide which of ``count`` arriving samples enter a memory that was offered ``seen`` before, and where.

    Sample number n, counted from 0, takes slot n while there is room; after that slot r ~ U{0..n} if r is below the
    capacity, and is turned away otherwise. Returns positions among the arriving samples and their slots, (K,) each;
    where two meet in a slot, the later one stands, as if they had come one by one.
    """
    free = max(min(capacity - seen, count), 0)
    # In numpy: on a few numbers, calling is what costs, and torch's calls cost several times as much.
    drawn = torch.rand(count - free, generator=generator, dtype=torch.float64).numpy()
    late = (drawn * np.arange(seen + free + 1, seen + count + 1)).astype(np.int64)
    entering = np.flatnonzero(late < capacity)
    slots = np.concatenate([np.arange(seen, seen + free), late[entering]])
    position = np.concatenate([np.arange(free), entering + free])
    if len(entering) and len(slots) > 1:
        holder = np.full(capacity, -1)
        holder[slots] = position  # of several positions numpy leaves the last, and that came last
        slots = np.flatnonzero(holder >= 0)
        position = holder[slots]
    return torch.from_numpy(position), torch.from_numpy(slots)


def offer(memory: Buffer, rows: Mapping[str, Tensor], generator: torch.Generator) -> None:
    """Offer rows, (N, ...) columns, to a memory that is a reservoir; only those that enter are copied."""
    count = len(rows["y"])
    if memory.seen + count <= memory.capacity:
        memory.write(torch.arange(memory.seen, memory.seen + count), rows)
        memory.seen += count
        return
    position, slots = reservoir_slots(memory.seen, count, memory.capacity, generator)
    memory.seen += count
    if len(slots):
        memory.write(
            slots, {name: value.index_select(0, position.to(value.device)) for name, value in rows.items()}
        )
