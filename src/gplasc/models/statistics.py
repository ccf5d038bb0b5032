"""Control of the running statistics of BatchNorm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@contextmanager
def steady_statistics(network: nn.Module) -> Iterator[None]:
    """Context manager in which forward passes do not update the running statistics of BatchNorm.

    Use it for images that occur in training only, such as strongly augmented views for an additional term: running
    statistics of both kinds of images would degrade the predictions of a classifier. In training mode layers
    still normalize by the statistics of the batch.
    """
    momenta = {layer: layer.momentum for layer in network.modules() if isinstance(layer, _NORMS)}
    for layer in momenta:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in momenta.items():
            layer.momentum = momentum


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Context manager in which a network is in evaluation mode."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)
