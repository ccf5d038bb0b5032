"""Small encoders: a convolutional one for 8x8 to 28x28 pixels, and the perceptron of published results on MNIST."""

from itertools import pairwise

from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.models.encoder import Encoder, Features

_SIZE = 28


class SmallConv(Encoder):
    """Three 3x3 convolutions with BatchNorm, the last two with stride 2, and average pooling.

    The first convolution has ``width`` channels. With "signed" features there is no ReLU after the last one.
    """

    def __init__(
        self, *, width: int = 32, in_channels: int = 1, features: Features = "relu", feature_dim: int = 128
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

    def maps(self, x: Tensor) -> Tensor:
        """Return feature maps of shape (N, feature_dim, H / 4, W / 4)."""
        out: Tensor = self.layers(x)
        return out


class MLP(Encoder):
    """Two hidden linear layers of `width` units with ReLU on the pixels of 28x28 images, scaled to 0..1.

    With "signed" features there is no ReLU after the last layer. The published initialization is "xavier".
    """

    image_size = _SIZE
    normalizes = True

    def __init__(self, *, width: int = 100, in_channels: int = 1, features: Features = "relu") -> None:
        super().__init__()
        self.in_channels = in_channels
        self.feature_dim = width
        first, second = nn.Linear(in_channels * _SIZE**2, width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second)
        if features == "relu":
            self.layers.append(nn.ReLU())

    def maps(self, x: Tensor) -> Tensor:
        """Return the features as maps of one pixel, (N, feature_dim, 1, 1)."""
        if x.shape[-2:] != (_SIZE, _SIZE):
            raise UserError(
                f"the encoder mlp takes images of {_SIZE} x {_SIZE} pixels, not of {x.shape[-2]} x {x.shape[-1]}; "
                f"set data.image_size={_SIZE} or another encoder"
            )
        out: Tensor = self.layers(x)
        return out[:, :, None, None]
