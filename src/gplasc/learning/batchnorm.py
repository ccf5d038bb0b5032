"""BatchNorm whose statistics are those of the rows of all processes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gplasc.learning.distributed import sum_over_processes


class SyncedBatchNorm(nn.SyncBatchNorm):
    """torch's SyncBatchNorm, which needs a GPU, with an exchange of the statistics on the CPU as well.

    A process may have no rows. Parameters and buffers have the names of BatchNorm, so weights can be exchanged.
    """

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
        sums = sum_over_processes(torch.cat([values.sum(over), rows]))
        count = sums[-1].detach()
        if count <= 1:
            raise ValueError(f"expected more than 1 value per channel in training mode, got {tuple(x.shape)}")
        mean = sums[:-1] / count
        centered = values - mean.view(shape)
        squares = sum_over_processes(centered.square().sum(over))
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


def synchronize_batchnorm(module: nn.Module) -> None:
    """Replace every BatchNorm layer below a module, in place, by one that sees the rows of all processes."""
    for name, layer in module.named_children():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            synced = SyncedBatchNorm(
                layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats
            )
            synced.load_state_dict(layer.state_dict())
            synced.train(layer.training)
            setattr(module, name, synced)
        else:
            synchronize_batchnorm(layer)
