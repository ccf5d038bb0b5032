"""A small convolutional encoder for images of 8x8 to 28x28 pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gplasc.models.encoder import Encoder, Features
from gplasc.models.initialize import Initialization, initialize


class SmallConv(Encoder):
    """Three 3x3 convolutions with BatchNorm, the last two with stride 2, and average pooling.

    Args:
        width: The number of channels of the first convolution.
        in_channels: The number of channels of the images.
        features: "relu" (non-negative) or "signed" (no ReLU after the last convolution).
        feature_dim: The number of features.
        generator: The generator of the weights. Default: PyTorch's global one.
        initialization: "kaiming" or "pytorch", see `Initialization`.
    """

    def __init__(
        self,
        *,
        width: int = 32,
        in_channels: int = 1,
        features: Features = "relu",
        feature_dim: int = 128,
        generator: torch.Generator | None = None,
        initialization: Initialization = "kaiming",
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.feature_dim = feature_dim
        layers: list[nn.Module] = []
        sizes = (in_channels, width, 2 * width, feature_dim)
        for index in range(3):
            layers += [
                nn.Conv2d(
                    sizes[index], sizes[index + 1], 3, stride=1 if index == 0 else 2, padding=1, bias=False
                ),
                nn.BatchNorm2d(sizes[index + 1]),
            ]
            if index < 2 or features == "relu":
                layers.append(nn.ReLU(inplace=True))
        self.layers = nn.Sequential(*layers)
        initialize(self, generator, initialization)
        self.channels_last_()

    def maps(self, x: Tensor) -> Tensor:
        """Return feature maps of shape (N, feature_dim, H / 4, W / 4)."""
        out: Tensor = self.layers(x)
        return out
