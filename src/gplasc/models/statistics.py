"""BatchNorm's running statistics: which images they describe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@contextmanager
def steady_statistics(network: nn.Module) -> Iterator[None]:
    """Forward passes inside normalize by their own batch and leave the running statistics alone.

    For images that are trained on in a form in which none is ever evaluated, such as strongly augmented views beside
    a classifier's own: with statistics of both, it predicts badly, whatever it has learned.
    """
    momenta = {layer: layer.momentum for layer in network.modules() if isinstance(layer, _NORMS)}
    for layer in momenta:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in momenta.items():
            layer.momentum = momentum
