"""Reservoir: at any time every sample offered so far is in the memory with the same probability."""

from __future__ import annotations

from collections.abc import Mapping

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
    number = torch.arange(seen, seen + count)
    drawn = (torch.rand(count, generator=generator, dtype=torch.float64) * (number + 1)).long()
    slots = torch.where(number < capacity, number, drawn)
    position = (slots < capacity).nonzero().flatten()
    # Sorted by slot and, inside a slot, by arrival: the last of each run is the one that stays.
    by_slot, order = slots[position].sort(stable=True)
    last = torch.ones(len(order), dtype=torch.bool)
    torch.ne(by_slot[1:], by_slot[:-1], out=last[:-1])
    return position[order[last]], by_slot[last]


def offer(memory: Buffer, rows: Mapping[str, Tensor], generator: torch.Generator) -> None:
    """Offer rows, (N, ...) columns, to a memory that is a reservoir; only those that enter are copied."""
    count = len(rows["y"])
    position, slots = reservoir_slots(memory.seen, count, memory.capacity, generator)
    memory.seen += count
    if len(slots):
        memory.write(slots, {name: value[position.to(value.device)] for name, value in rows.items()})
