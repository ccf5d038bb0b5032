"""One run on several processes: every batch is split, the features are gathered, and all processes stay equal.

Each process draws the whole batch and all random numbers from the same generators, augments and encodes its share of
the rows, and gathers the features of all rows with their gradients. Heads, losses and memory then see the whole batch
on every process, exactly as in a run on one process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gplasc.errors import UserError

_TIMEOUT = timedelta(minutes=30)  # other processes wait while the first one downloads or writes
LOST = "lost another"
_NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

Value = TypeVar("Value")


@dataclass(frozen=True)
class Processes:
    """The processes that compute a run together; one process by default.

    Attributes:
        rank: The number of this process, from 0. Process 0 writes all files.
        size: The number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return which of ``count`` rows this process computes: as many as the others, at the end fewer or none.

        >>> [Processes(rank, 3).share(7) for rank in range(3)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 7, None)]
        """
        each = -(-count // self.size)
        return slice(min(self.rank * each, count), min((self.rank + 1) * each, count))

    def gather(self, rows: Tensor, count: int) -> Tensor:
        """Return the rows of all processes, (count, D), of which this one has its `share`.

        The gradient of a row is the sum of its gradients on all processes, so that with equal losses the mean over
        processes of a weight's gradient is that of one process.
        """
        if self.size == 1:
            return rows
        missing = -(-count // self.size) - len(rows)
        padded = torch.cat([rows, rows.new_zeros(missing, rows.shape[1])])
        # Not every backend moves 16-bit numbers.
        gathered: Tensor = _Gather.apply(padded.float() if rows.element_size() < 4 else padded, self)  # type: ignore[no-untyped-call]
        return gathered[:count].to(rows.dtype)

    def mean(self, vector: Tensor) -> Tensor:
        """Return the mean of a tensor over the processes; no gradients."""
        if self.size == 1:
            return vector
        total = vector.clone()
        dist.all_reduce(total)
        return total / self.size

    def from_first(self, value: Value) -> Value:
        """Return what process 0 passed, anything that can be pickled, on every process."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, device=torch.device("cpu"))
        return values[0]

    def copy_from_first(self, module: nn.Module) -> None:
        """Copy parameters and buffers of process 0 to all others."""
        if self.size > 1:
            for value in module.state_dict().values():
                if isinstance(value, Tensor):
                    dist.broadcast(value, 0)

    def synchronize_batchnorm(self, module: nn.Module) -> None:
        """Replace every BatchNorm layer below a module, in place, by one that sees the rows of all processes."""
        if self.size > 1:
            nn.SyncBatchNorm.convert_sync_batchnorm(module)
            for layer in module.modules():
                if isinstance(layer, nn.SyncBatchNorm):
                    layer.__class__ = _SyncedBatchNorm

    def check_equal(self, what: str, digest: str) -> None:
        """Raise a UserError unless a digest is the same on all processes."""
        if self.size == 1:
            return
        digests: list[Any] = [None] * self.size
        dist.all_gather_object(digests, digest)
        differ = [rank for rank, other in enumerate(digests) if other != digests[0]]
        if differ:
            raise UserError(
                f"the {what} of process {differ[0]} differs from that of process 0; devices of different kinds "
                "round differently: use equal devices, or one process"
            )


class _SyncedBatchNorm(nn.SyncBatchNorm):
    """SyncBatchNorm that works on the CPU too, also for a process without rows; weights have BatchNorm's names."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (N, C, ...) by the statistics of all processes' rows; in evaluation mode by the running ones."""
        if x.device.type != "cpu" or not self.training:
            out: Tensor = super().forward(x)
            return out
        self._check_input_dim(x)
        over = [0, *range(2, x.ndim)]
        shape = (1, -1, *[1] * (x.ndim - 2))
        values = x if x.dtype == torch.float64 else x.float()
        rows = values.new_full((1,), x.numel() / x.shape[1])
        sums: Tensor = _Sum.apply(torch.cat([values.sum(over), rows]))  # type: ignore[no-untyped-call]
        count = sums[-1].detach()
        if count <= 1:
            raise ValueError(f"expected more than 1 value per channel in training mode, got {tuple(x.shape)}")
        mean = sums[:-1] / count
        centered = values - mean.view(shape)
        squares: Tensor = _Sum.apply(centered.square().sum(over))  # type: ignore[no-untyped-call]
        variance = squares / count
        self._update(mean.detach(), variance.detach() * count / (count - 1))
        out = centered * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(x.dtype)

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics toward those of the batch, as torch's BatchNorm does."""
        if not self.track_running_stats:
            return
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        weight = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, weight)
        self.running_var.lerp_(variance, weight)


class _Sum(torch.autograd.Function):
    """The sum of a tensor over all processes; the gradients are those of all processes' losses, added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradients[0])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, processes: Processes) -> Tensor:
        ctx.own = slice(processes.rank * len(rows), (processes.rank + 1) * len(rows))
        shares = [torch.empty_like(rows) for _ in range(processes.size)]
        dist.all_gather(shares, rows.contiguous())
        return torch.cat(shares)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Sum.forward(ctx, gradients[0])[ctx.own], None


def launched() -> bool:
    """Whether torchrun, or ``gplasc run --devices``, has started this process as one of several."""
    return all(name in os.environ for name in _NEEDED) and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def joined(device: str) -> Iterator[tuple[Processes, str]]:
    """Join the processes that were launched together, if there are several; yield them and this one's device."""
    if not launched():
        yield Processes(), device
        return
    local = int(os.environ["LOCAL_RANK"])
    on_gpu = device.startswith("cuda")
    if on_gpu:
        if local >= torch.cuda.device_count():
            raise UserError(
                f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}; "
                "start as many processes as there are GPUs, or add --device cpu"
            )
        device = f"cuda:{local}"
        torch.cuda.set_device(local)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=_TIMEOUT)
    processes = Processes(dist.get_rank(), dist.get_world_size())
    try:
        yield processes, device
        # No process leaves before all are done: gloo aborts a process whose peer closes the connection too early.
        dist.all_reduce(torch.zeros(1))
    except RuntimeError as error:
        if not _connection_lost(error):
            raise
        raise UserError(
            f"process {processes.rank} {LOST} of the {processes.size} processes of this run; the last checkpoint is "
            "kept: run the same command again, on one process or on several, to continue"
        ) from error
    finally:
        dist.destroy_process_group()


def _connection_lost(error: RuntimeError) -> bool:
    words = ("gloo", "connection", "nccl", "peer")
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in words)
