"""What batches are drawn from: the current task's samples and the memory, without copying either."""

from collections.abc import Sequence
from itertools import zip_longest

import torch
from torch import Tensor

from gplasc.learning.batch import Batch, PoolKind
from gplasc.memory import Buffer
from gplasc.streams import Samples


class Pool:
    """Samples followed by the memory's rows, addressed by one index."""

    def __init__(self, sources: Sequence[Samples], memory: Buffer | None = None) -> None:
        self._sources = list(sources)
        if memory is not None and len(memory):
            self._sources.append(Samples(memory["x"], memory["y"]))
        sizes = torch.tensor([0] + [len(source) for source in self._sources])
        self._starts = sizes.cumsum(0)
        self.num_memory = len(memory) if memory is not None else 0
        self.num_current = len(self) - self.num_memory
        self.y = torch.cat([source.y for source in self._sources])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, index: Tensor) -> Batch:
        """Return the samples at ``index``, (b,), in that order."""
        if len(self._sources) == 1:
            x = self._sources[0].take(index).x
        else:
            first = self._sources[0].x
            x = torch.empty((len(index), *first.shape[1:]), dtype=first.dtype)
            source_of = torch.bucketize(index, self._starts[1:], right=True)
            for number in source_of.unique().tolist():
                rows = (source_of == number).nonzero().flatten()
                x[rows] = self._sources[number].take(index[rows] - self._starts[number]).x
        rows_of_memory = torch.where(index >= self.num_current, index - self.num_current, -1)
        return Batch(x, self.y[index], memory_rows=rows_of_memory)


def order_batches(pool: Pool, kind: PoolKind, size: int, generator: torch.Generator) -> list[Tensor]:
    """Draw the batches of one epoch, which visit every sample once; with "split" each has a share of memory rows."""
    if kind != "split" or not pool.num_memory:
        return list(torch.randperm(len(pool), generator=generator).split(size))
    share = min(max(round(size * pool.num_memory / len(pool)), 1), size - 1)
    current = torch.randperm(pool.num_current, generator=generator).split(size - share)
    memory = (torch.randperm(pool.num_memory, generator=generator) + pool.num_current).split(share)
    nothing = torch.zeros(0, dtype=torch.int64)
    return [torch.cat(sides) for sides in zip_longest(current, memory, fillvalue=nothing)]
