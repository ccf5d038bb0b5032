"""The buffer: a fixed number of rows, with images as uint8 and any further columns of a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gplasc.errors import UserError

_LARGE = 2**15  # rows


class Buffer:
    """Rows with columns ``x``, ``y`` and those a method adds, up to a capacity.

    Columns are allocated once, at full capacity, with the first rows; adding rows never copies those already there.

    Attributes:
        capacity: The largest number of rows.
        seen: The number of samples offered so far, which the reservoir needs.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.seen = 0
        self._size = 0
        self._columns: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, column: str) -> Tensor:
        """Return a column of shape (len, ...) as a view of the stored rows."""
        return self._columns[column][: self._size]

    @property
    def labels(self) -> Tensor:
        """The labels of the rows, (len,), also while the memory is empty."""
        return self["y"] if len(self) else torch.zeros(0, dtype=torch.int64)

    def write(self, slots: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Write rows, columns of shape (K, ...), to slots (K,), which leave no gap below the capacity.

        Raises:
            ValueError: If the columns are not those of the memory.
        """
        if not len(slots):
            return
        if not self._columns:
            try:
                for name, value in rows.items():
                    self._columns[name] = torch.zeros((self.capacity, *value.shape[1:]), dtype=value.dtype)
            except (RuntimeError, MemoryError, TypeError):
                what = f"there is no room for a buffer of {self.capacity:,} samples"
                raise UserError(f"{what}; give a smaller number") from None
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
        """Replace the whole content by rows, columns of shape (K, ...).

        Raises:
            ValueError: If there are more rows than the capacity.
        """
        count = len(next(iter(rows.values()))) if rows else 0
        if count > self.capacity:
            raise ValueError(f"{count} rows were offered to a memory of {self.capacity}")
        self._columns, self._size = {}, 0  # rows may be views of the old columns: new ones are allocated
        self.write(torch.arange(count), rows)

    def refill(self, kept: Tensor, rows: Mapping[str, Tensor], **columns: Tensor) -> None:
        """Replace the content by the rows ``kept``, (K,) in this order, followed by others, columns of shape (N, ...).

        ``columns`` are those of all rows, (K + N, ...), for which the memory's are not used.
        """
        if len(self):
            rows = {name: torch.cat([self[name][kept], value]) for name, value in rows.items()}
        self.replace({**rows, **columns})

    def exchange(self, dropped: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Remove distinct rows, (K,), and add others in their place, columns of shape (N, ...).

        Other rows are not copied, except that rows from the end are moved to remaining gaps: the order is not kept.

        Raises:
            ValueError: If there would be more rows than the capacity.
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
        """Draw rows uniformly without replacement: indices of shape (min(count, len),)."""
        if self._size < _LARGE or count >= self._size // 2:
            return torch.randperm(self._size, generator=generator)[:count]
        # A permutation of all rows takes time in proportion to them: draw until there are enough different ones.
        drawn: list[int] = []
        while len(drawn) < count:
            more = torch.randint(self._size, (count - len(drawn),), generator=generator)
            drawn = list(dict.fromkeys([*drawn, *more.tolist()]))
        return torch.tensor(drawn, dtype=torch.int64)

    def rows(self, index: Tensor | None = None) -> dict[str, Tensor]:
        """Return all columns of the rows ``index``, (K,), by default of all rows."""
        whole = {name: self[name] for name in self._columns}
        if index is None:
            return whole
        return {name: value.index_select(0, index) for name, value in whole.items()}

    @property
    def num_bytes(self) -> int:
        """The size of the columns at full capacity in bytes."""
        return sum(value.numel() * value.element_size() for value in self._columns.values())

    def state_dict(self) -> dict[str, Any]:
        """Return rows and counters."""
        return {"seen": self.seen, "columns": {name: value.clone() for name, value in self.rows().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.replace(state["columns"])
        self.seen = state["seen"]
