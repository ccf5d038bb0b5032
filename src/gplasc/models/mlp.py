"""The perceptron of the published results on MNIST: two hidden layers, no normalization of any kind."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.models._initialize import Initialization, initialize
from gplasc.models.encoder import Encoder, Features

_SIZE = 28


class MLP(Encoder):
    """Two hidden linear layers of `width` units with ReLU on the pixels of 28x28 images, scaled to 0..1.

    With "signed" features there is no ReLU after the last layer. The published initialization is "xavier".
    """

    image_size = _SIZE
    normalizes = True

    def __init__(
        self,
        *,
        width: int = 100,
        in_channels: int = 1,
        features: Features = "relu",
        generator: torch.Generator | None = None,
        initialization: Initialization = "xavier",
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.feature_dim = width
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(in_channels * _SIZE**2, width), nn.ReLU(), nn.Linear(width, width)
        )
        if features == "relu":
            self.layers.append(nn.ReLU())
        initialize(self, generator, initialization)

    def maps(self, x: Tensor) -> Tensor:
        """Return the features as maps of one pixel, (N, feature_dim, 1, 1)."""
        if x.shape[-2:] != (_SIZE, _SIZE):
            raise UserError(
                f"the encoder mlp takes images of {_SIZE} x {_SIZE} pixels, not of {x.shape[-2]} x {x.shape[-1]}; "
                f"set data.image_size={_SIZE} or another encoder"
            )
        out: Tensor = self.layers(x)
        return out[:, :, None, None]
