"""Losses over pairs of rows, computed in blocks of rows of the pair matrix.

The (N, N) matrix of cosines and the temporaries of a loss over it grow with the square of the batch. Above
`PAIRS_PER_BLOCK` pairs a loss is therefore computed in blocks of rows; each block is recomputed in the backward pass
instead of being stored. The result is the same up to rounding; the cost is one more product of the features.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

PAIRS_PER_BLOCK = 2**22
"""Entries of a block: 16 MiB in float32. A batch of up to 2048 rows is one block."""


def full_precision(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Return a context without autocast on the tensor's device, so that float32 arithmetic stays float32."""
    kind = tensor.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()


def by_rows(block: Callable[..., Tensor], rows: int, *tensors: Tensor | None) -> Tensor:
    """Stack `block(start, stop, *tensors)`, one entry per row of start:stop, over all rows.

    With several blocks only the tensors themselves are saved for the backward pass.
    """
    step = max(1, PAIRS_PER_BLOCK // max(1, rows))
    if step >= rows:
        return block(0, rows, *tensors)
    stacked: Tensor = _Blocks.apply(block, rows, step, *tensors)  # type: ignore[no-untyped-call]
    return stacked


def without_self(values: Tensor, start: int, fill: float | bool) -> Tensor:
    """Return a copy of a block (rows, N) that begins at row `start`, its self-pairs replaced by `fill`."""
    values = values.clone()
    values.diagonal(start).fill_(fill)
    return values


class _Blocks(torch.autograd.Function):
    """Compute blocks one after the other, and each again for its gradient.

    torch.utils.checkpoint would do the same with less code, but the objects it allocates between the large blocks
    fragment the heap: relation distillation of 16,384 rows then takes four times the memory.
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
