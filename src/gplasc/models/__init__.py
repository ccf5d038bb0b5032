"""Encoders and heads, and the network that joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast, get_args

import torch

from gplasc.models.adapter import FeatureAdapter, FixedFeatures
from gplasc.models.encoder import Encoder, Features
from gplasc.models.foreign import EncoderBuilder, ForeignEncoder, as_encoder, load_encoder
from gplasc.models.heads import LinearClassifier, ProjectionHead, Prototypes
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

_Builder = Callable[[int, int | None, Features, torch.Generator | None], Encoder]

_BUILDERS: dict[str, _Builder] = {
    "resnet18": lambda channels, width, features, generator: resnet18(
        in_channels=channels, width=width or 64, stem="cifar", features=features, generator=generator
    ),
    "resnet18-imagenet": lambda channels, width, features, generator: resnet18(
        in_channels=channels, width=width or 64, stem="imagenet", features=features, generator=generator
    ),
    "small": lambda channels, width, features, generator: small_conv(
        in_channels=channels, width=width or 32, features=features, generator=generator
    ),
}


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
) -> Encoder:
    """An encoder by its name: "resnet18", "resnet18-imagenet" (for 224 px) or "small" (8 to 28 px).

    width: channels of the first stage; None is the encoder's own default (64, 64, 32).
    features: "relu" (as published) or "signed". generator: where the starting weights come from.

    >>> build_encoder("small", in_channels=1).feature_dim
    128
    """
    if name not in _BUILDERS:
        raise ValueError(f"there is no encoder {name!r}; choose one of {', '.join(_BUILDERS)}")
    if width is not None and width < 1:
        raise ValueError(f"width is {width}; it must be a positive number of channels")
    if features not in get_args(Features):
        raise ValueError(f"features is {features!r}; choose one of {', '.join(get_args(Features))}")
    return _BUILDERS[name](in_channels, width, cast(Features, features), generator)
