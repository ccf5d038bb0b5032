"""ResNet-18 without a classifier: a CIFAR stem for small images, a fast one with stride 2, one for 224 px."""

from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from gplasc.models.encoder import Encoder, Features

Stem = Literal["cifar", "fast", "imagenet"]


class _Shortcut(nn.Conv2d):
    """A 1x1 convolution with a stride; with few channels, one without stride on every stride-th pixel.

    Both compute the same sums. With fewer than 16 channels, an odd batch in channels_last and several threads, the
    backward pass of the strided CPU kernel of torch 2.13 writes out of bounds, and the process crashes.
    """

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__(in_channels, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.in_channels >= 16:
            return super().forward(x)
        return F.conv2d(x[..., :: self.stride[0], :: self.stride[1]], self.weight)


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut; twice the channels come with half the pixels. Signed without `relu`."""

    def __init__(self, in_channels: int, channels: int, *, relu: bool) -> None:
        super().__init__()
        stride = channels // in_channels
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(_Shortcut(in_channels, channels, stride), nn.BatchNorm2d(channels))
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out, inplace=True) if self.relu else out


class ResNet(Encoder):
    """ResNet encoder (He et al. 2016): four stages of blocks with 1, 2, 4 and 8 times `width` channels.

    There are 8 * `width` features; a ResNet-18 has 2 blocks per stage, a ResNet-10 one. The stem is "cifar" (3x3,
    stride 1, no pooling), "fast" (3x3, stride 2: a quarter of the arithmetic) or "imagenet" (7x7, stride 2, max
    pooling, for 224 px). With "signed" features the last block has no final ReLU, so that cosines can be negative.

    >>> sum(p.numel() for p in ResNet().parameters())
    11168832
    """

    def __init__(
        self,
        *,
        width: int = 64,
        stem: Stem = "cifar",
        blocks_per_stage: int = 2,
        features: Features = "relu",
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.feature_dim = 8 * width
        kernel, stride = {"cifar": (3, 1), "fast": (3, 2), "imagenet": (7, 2)}[stem]
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, width, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        if stem == "imagenet":
            self.stem.append(nn.MaxPool2d(3, stride=2, padding=1))
        widths = [width, *(width * 2**stage for stage in range(4) for _ in range(blocks_per_stage))]
        blocks = [_BasicBlock(*channels, relu=True) for channels in pairwise(widths)]
        blocks[-1].relu = features == "relu"
        self.blocks = nn.Sequential(*blocks)

    def maps(self, x: Tensor) -> Tensor:
        """Return the feature maps of the last block, shape (N, 8 * width, h, w)."""
        maps: Tensor = self.blocks(self.stem(x))
        return maps
