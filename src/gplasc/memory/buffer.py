"""What is remembered: a fixed number of rows, images as uint8, with any further columns a method wants to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Buffer:
    """Rows of equal columns (``x``, ``y`` and whatever a method adds) up to a capacity.

    Columns are allocated once, at full capacity, when the first rows come in; adding rows writes into them and never
    copies what is already there. ``seen`` counts the samples offered so far, for policies that need it (reservoir).
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.seen = 0
        self._size = 0
        self._columns: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, column: str) -> Tensor:
        """Return a column, (len, ...), as a view of the stored rows."""
        return self._columns[column][: self._size]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def write(self, slots: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Put rows into slots, (K,) each below the capacity; the filled slots must stay without a gap."""
        if not len(slots):
            return
        if not self._columns:
            for name, value in rows.items():
                self._columns[name] = torch.zeros((self.capacity, *value.shape[1:]), dtype=value.dtype)
        if set(rows) != set(self._columns):
            raise ValueError(f"the memory has the columns {sorted(self._columns)}, but got {sorted(rows)}")
        for name, value in rows.items():
            # As numpy arrays: torch writes rows of bytes to an index many times more slowly.
            self._columns[name].numpy()[slots.numpy()] = value.detach().to("cpu").numpy()
        self._size = max(self._size, int(slots.max()) + 1)

    def widen(self, column: str, width: int) -> None:
        """Make the rows of a column, (len, W), ``width`` wide; what is added is NaN."""
        if column in self._columns and self._columns[column].shape[1] < width:
            old = self._columns[column]
            added = old.new_full((len(old), width - old.shape[1]), torch.nan)
            self._columns[column] = torch.cat([old, added], dim=1)

    def replace(self, rows: Mapping[str, Tensor]) -> None:
        """Replace the whole content, (K, ...) columns with K at most the capacity."""
        count = len(next(iter(rows.values()))) if rows else 0
        if count > self.capacity:
            raise ValueError(f"{count} rows were offered to a memory of {self.capacity}")
        kept = {name: value.detach().to("cpu", copy=True) for name, value in rows.items()}
        self._columns, self._size = {}, 0
        self.write(torch.arange(count), kept)

    def exchange(self, dropped: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Let go of the rows ``dropped``, (K,) distinct, and take in others, (N, ...) columns, where there is room.

        Nobody else is copied, except that rows from the end move into what gaps are left: the order is not kept.
        """
        count = len(next(iter(rows.values())))
        size = self._size - len(dropped) + count
        if size > self.capacity:
            raise ValueError(f"{size} rows would be in a memory of {self.capacity}")
        slots = torch.cat([dropped.sort().values, torch.arange(self._size, self.capacity)])
        self.write(slots[:count], rows)
        if count < len(dropped):
            gaps = slots[count : len(dropped)]
            full = torch.ones(self._size, dtype=torch.bool)
            full[gaps] = False
            moved = full[size:].nonzero().flatten() + size
            for value in self._columns.values():
                value[gaps[gaps < size]] = value[moved]
            self._size = size

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw rows uniformly without replacement: their indices, (min(count, len),)."""
        return torch.randperm(self._size, generator=generator)[:count]

    def rows(self, index: Tensor | None = None) -> dict[str, Tensor]:
        """Return all columns, at ``index`` or whole."""
        return {
            name: self[name] if index is None else self[name].index_select(0, index) for name in self._columns
        }

    @property
    def num_bytes(self) -> int:
        """The bytes that the columns take at full capacity."""
        return sum(value.numel() * value.element_size() for value in self._columns.values())

    def state_dict(self) -> dict[str, Any]:
        """Return content and counters."""
        return {"seen": self.seen, "columns": {name: value.clone() for name, value in self.rows().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take content and counters as they were."""
        self.replace(state["columns"])
        self.seen = state["seen"]
