"""Encoders and heads, and the network that joins them."""

from __future__ import annotations

from functools import partial
from typing import Protocol, cast, get_args

import torch

from gplasc.models.adapter import FeatureAdapter, FixedFeatures
from gplasc.models.encoder import Encoder, Features
from gplasc.models.foreign import EncoderBuilder, ForeignEncoder, as_encoder, load_encoder
from gplasc.models.heads import LinearClassifier, ProjectionHead, Prototypes
from gplasc.models.initialize import Initialization
from gplasc.models.network import Network, Outputs
from gplasc.models.resnet import ResNet18, Stem, resnet18
from gplasc.models.small import SmallConv, small_conv
from gplasc.models.statistics import steady_statistics

__all__ = [
    "Encoder",
    "EncoderBuilder",
    "FeatureAdapter",
    "Features",
    "FixedFeatures",
    "ForeignEncoder",
    "Initialization",
    "LinearClassifier",
    "Network",
    "Outputs",
    "ProjectionHead",
    "Prototypes",
    "ResNet18",
    "SmallConv",
    "Stem",
    "as_encoder",
    "build_encoder",
    "list_encoders",
    "load_encoder",
    "resnet18",
    "small_conv",
    "steady_statistics",
]


class _Builder(Protocol):
    def __call__(
        self,
        *,
        in_channels: int,
        width: int,
        features: Features,
        generator: torch.Generator | None,
        initialization: Initialization,
    ) -> Encoder: ...


_BUILDERS: dict[str, tuple[_Builder, int]] = {
    "resnet18": (resnet18, 64),
    "resnet18-fast": (partial(resnet18, stem="fast"), 24),
    "resnet10-fast": (partial(resnet18, stem="fast", blocks_per_stage=1), 24),
    "resnet18-imagenet": (partial(resnet18, stem="imagenet"), 64),
    "small": (small_conv, 32),
}
"""The function that builds an encoder, and its default width."""


def list_encoders() -> list[str]:
    """Names that `build_encoder` knows."""
    return list(_BUILDERS)


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
            "resnet18-imagenet" (for 224 px); "small" (8 to 28 px).
        in_channels: The number of channels of the images.
        width: The number of channels of the first stage. Default: 64, 24 for the fast ones, 32 for "small".
        features: "relu" (as published) or "signed".
        generator: The generator of the weights. Default: PyTorch's global one.
        initialization: "kaiming" or "pytorch", see `Initialization`.

    Returns:
        The encoder.

    Raises:
        ValueError: If a setting is out of its range.

    >>> build_encoder("small", in_channels=1).feature_dim
    128
    """
    if name not in _BUILDERS:
        raise ValueError(f"there is no encoder {name!r}; choose one of {', '.join(_BUILDERS)}")
    if width is not None and width < 1:
        raise ValueError(f"width is {width}; it must be a positive number of channels")
    if features not in get_args(Features):
        raise ValueError(f"features is {features!r}; choose one of {', '.join(get_args(Features))}")
    build, default_width = _BUILDERS[name]
    return build(
        in_channels=in_channels,
        width=width or default_width,
        features=cast(Features, features),
        generator=generator,
        initialization=initialization,
    )
