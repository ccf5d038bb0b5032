"""Losses over pairs of rows, a few rows of the pair matrix at a time.

The (N, N) matrix of cosines and the temporaries of a loss over it grow with the square of the batch. Above
`PAIRS_AT_ONCE` pairs a loss therefore walks over blocks of rows; each block is computed again in the
backward pass instead of being kept. The result is the same up to rounding; the price is one more product of
the features.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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

    With several blocks nothing is kept for the backward pass but the tensors themselves.
    """
    step = rows_at_once(rows, chunk_rows)
    if step >= rows:
        return block(0, rows, *tensors)
    stacked: Tensor = _Blocks.apply(block, rows, step, *tensors)  # type: ignore[no-untyped-call]
    return stacked


class _Blocks(torch.autograd.Function):
    """Run blocks one after the other, and each again for its gradient.

    torch.utils.checkpoint would do the same with less code, but what it keeps alive between the large blocks
    fragments the heap: relation distillation of 16,384 rows then takes four times the memory.
    """

    @staticmethod
    def forward(
        ctx: Any, block: Callable[..., Tensor], rows: int, step: int, *tensors: Tensor | None
    ) -> Tensor:
        ctx.block, ctx.rows, ctx.step = block, rows, step
        ctx.save_for_backward(*tensors)
        result: Tensor | None = None
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            piece = block(start, stop, *tensors)
            if result is None:
                result = piece.new_empty(rows, *piece.shape[1:])
            result[start:stop] = piece
        assert result is not None
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[3:]
        tensors = [
            tensor.detach().requires_grad_() if want else tensor
            for tensor, want in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        leaves = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want]
        totals = [torch.zeros_like(leaf) for leaf in leaves]
        for start in range(0, ctx.rows, ctx.step):
            stop = min(start + ctx.step, ctx.rows)
            with torch.enable_grad(), full_precision(gradient):
                piece = ctx.block(start, stop, *tensors)
            for total, part in zip(
                totals, torch.autograd.grad(piece, leaves, gradient[start:stop]), strict=True
            ):
                total += part
        remaining = iter(totals)
        return (None, None, None, *(next(remaining) if want else None for want in wanted))


def without_self(values: Tensor, start: int, fill: float | bool) -> Tensor:
    """Copy of a block (rows, N) that begins at row `start`, its self-pairs replaced by `fill`."""
    values = values.clone()
    values.diagonal(start).fill_(fill)
    return values
