"""A small convolutional encoder for images of 8x8 to 28x28 pixels."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from gplasc.models._initialize import Initialization, initialize
from gplasc.models.encoder import Encoder, Features


class SmallConv(Encoder):
    """Three 3x3 convolutions with BatchNorm, the last two with stride 2, and average pooling.

    The first convolution has ``width`` channels. With "signed" features there is no ReLU after the last one.
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
        self.layers = nn.Sequential()
        channels = pairwise((in_channels, width, 2 * width, feature_dim))
        for (inputs, outputs), stride in zip(channels, (1, 2, 2), strict=True):
            self.layers += nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            )
        if features == "signed":
            self.layers.pop(-1)
        initialize(self, generator, initialization)
        self.channels_last_()

    def maps(self, x: Tensor) -> Tensor:
        """Return feature maps of shape (N, feature_dim, H / 4, W / 4)."""
        out: Tensor = self.layers(x)
        return out
