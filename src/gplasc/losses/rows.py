"""Losses over pairs of rows, a few rows of the pair matrix at a time.

The (N, N) matrix of cosines and the temporaries of a loss over it grow with the square of the batch. Above
`PAIRS_AT_ONCE` pairs a loss therefore walks over blocks of rows; each block is computed again in the
backward pass instead of being kept. The result is the same up to rounding; the price is one more product of
the features.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gplasc.losses.inputs import full_precision, promote, require_rows

PAIRS_AT_ONCE = 2**22
"""Entries of a block: 16 MiB in float32. A batch of up to 2048 rows is one block."""


def rows_at_once(rows: int, chunk_rows: int | None = None) -> int:
    """Rows in a block for a batch of `rows`; `chunk_rows` is the caller's own choice."""
    if chunk_rows is not None:
        if chunk_rows < 1:
            raise ValueError(f"chunk_rows must be at least 1, got {chunk_rows}.")
        return chunk_rows
    return max(1, PAIRS_AT_ONCE // max(1, rows))


def shared_gram(z: Tensor) -> Tensor | None:
    """Cosines of all pairs of the unit rows `z` (N, D), to hand to several losses: (N, N).

    None for a batch so large that it is cheaper for each loss to work in blocks; every loss takes None.
    """
    require_rows("z", z)
    if rows_at_once(len(z)) < len(z):
        return None
    with full_precision(z):
        z = promote(z)
        return z @ z.T


def by_rows(
    block: Callable[..., Tensor], rows: int, chunk_rows: int | None, *tensors: Tensor | None
) -> Tensor:
    """Stack `block(start, stop, *tensors)`, one line per row of start:stop, over all rows.

    Blocks keep nothing for the backward pass but the tensors they were given.
    """
    step = rows_at_once(rows, chunk_rows)
    if step >= rows:
        return block(0, rows, *tensors)
    pieces: list[Tensor] = []
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        if torch.is_grad_enabled():
            piece = checkpoint(block, start, stop, *tensors, use_reentrant=False, preserve_rng_state=False)
        else:
            piece = block(start, stop, *tensors)
        pieces.append(piece)
    return torch.cat(pieces)


def without_self(values: Tensor, start: int, fill: float | bool) -> Tensor:
    """Copy of a block (rows, N) that begins at row `start`, its self-pairs replaced by `fill`."""
    values = values.clone()
    values.diagonal(start).fill_(fill)
    return values
