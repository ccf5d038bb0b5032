"""Encoders and heads, and the network that joins them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import torch

from gplasc.models._initialize import Initialization, initialize
from gplasc.models.adapter import FeatureAdapter, FixedFeatures
from gplasc.models.encoder import Encoder, Features
from gplasc.models.foreign import EncoderBuilder, ForeignEncoder, as_encoder
from gplasc.models.heads import LinearClassifier, ProjectionHead, Prototypes
from gplasc.models.network import Network, Outputs
from gplasc.models.resnet import ResNet
from gplasc.models.small import MLP, SmallConv
from gplasc.models.statistics import steady_statistics

__all__ = [
    "ENCODERS",
    "Encoder",
    "EncoderBuilder",
    "FeatureAdapter",
    "FixedFeatures",
    "ForeignEncoder",
    "LinearClassifier",
    "Network",
    "Outputs",
    "ProjectionHead",
    "Prototypes",
    "as_encoder",
    "build_encoder",
    "steady_statistics",
]

ENCODERS: dict[str, Callable[..., Encoder]] = {
    "resnet18": ResNet,
    "resnet18-fast": partial(ResNet, width=24, stem="fast"),
    "resnet10-fast": partial(ResNet, width=24, stem="fast", blocks_per_stage=1),
    "resnet18-imagenet": partial(ResNet, stem="imagenet"),
    "small": SmallConv,
    "mlp": MLP,
}
"""The encoders that `build_encoder` builds, by name."""


def build_encoder(
    name: str,
    *,
    in_channels: int = 3,
    width: int | None = None,
    features: str = "relu",
    generator: torch.Generator | None = None,
    initialization: Initialization = "kaiming",
) -> Encoder:
    """Return an encoder by its name.

    Args:
        name: "resnet18"; "resnet18-fast" and "resnet10-fast" (stride 2 in the stem, narrow: for CPUs);
            "resnet18-imagenet" (for 224 px); "small" (8 to 28 px); "mlp" (28 px, two hidden layers).
        in_channels: The number of channels of the images.
        width: The number of channels of the first stage. Default: 64, 24 for the fast ones, 32 for "small"; of
            the layers of "mlp": 100.
        features: "relu" (as published) or "signed".
        generator: The generator of the weights. Default: PyTorch's global one.
        initialization: "kaiming", "pytorch" or "xavier", see `Initialization`.

    >>> build_encoder("small", in_channels=1).feature_dim
    128
    """
    if name not in ENCODERS:
        raise ValueError(f"there is no encoder {name!r}; choose one of {', '.join(ENCODERS)}")
    if width is not None and width < 1:
        raise ValueError(f"width is {width}; it must be a positive number of channels")
    if in_channels < 1:
        raise ValueError(f"in_channels is {in_channels}; it must be 1 or more (1 for gray, 3 for color)")
    if features not in get_args(Features):
        raise ValueError(f"features is {features!r}; choose one of {', '.join(get_args(Features))}")
    sizes = {"width": width} if width else {}
    encoder = ENCODERS[name](in_channels=in_channels, features=features, **sizes)
    initialize(encoder, generator, initialization)
    encoder.channels_last_()
    return encoder
