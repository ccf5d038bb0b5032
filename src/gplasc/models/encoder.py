"""What every encoder has in common: images in, pooled features out, channels last."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

Features = Literal["relu", "signed"]
"""`relu`: features are non-negative, as published; `signed`: the last ReLU is left out."""


class Encoder(nn.Module, ABC):
    """Images (N, C, H, W), float and normalized -> pooled features (N, feature_dim)."""

    feature_dim: int
    in_channels: int

    def forward(self, x: Tensor) -> Tensor:
        """Pooled features (N, feature_dim) of the images x (N, C, H, W)."""
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"the encoder was given a tensor of shape {tuple(x.shape)}; it takes images "
                f"(N, {self.in_channels}, H, W): build it with in_channels equal to the images' channels"
            )
        # A tensor that is channels-last already is returned as it is.
        return self.maps(x.contiguous(memory_format=torch.channels_last)).mean((2, 3))

    def channels_last_(self) -> None:
        """Lay the convolutions' weights out channels last, in place: 15 to 45 % faster on a CPU."""
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs

    @abstractmethod
    def maps(self, x: Tensor) -> Tensor:
        """Feature maps (N, feature_dim, h, w) before the pooling."""


def check_encoder_settings(*, width: int, in_channels: int, features: str) -> None:
    """Refuse what no encoder can be built from, in one sentence."""
    if width < 1:
        raise ValueError(f"width is {width}; it must be a positive number of channels")
    if in_channels < 1:
        raise ValueError(f"in_channels is {in_channels}; it must be 1 or more (1 for gray, 3 for color)")
    if features not in ("relu", "signed"):
        raise ValueError(f"features is {features!r}; allowed are 'relu' (as published) and 'signed'")
