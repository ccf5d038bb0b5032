"""Initialization of weights from a given generator."""

import math
from typing import Literal

import torch
from torch import nn

Initialization = Literal["kaiming", "pytorch", "xavier"]
"""Of convolutions: Kaiming normal by fan-out, as in the ResNets of SupContrast, Co2L and CCLIS; or PyTorch's default,
as in Mammoth's. Xavier uniform with biases 0, of linear layers too, as in Mammoth's perceptron."""


def initialize(
    module: nn.Module, generator: torch.Generator | None = None, initialization: Initialization = "kaiming"
) -> None:
    """Initialize all convolution, linear and BatchNorm layers of a module in place.

    Linear layers, unless "xavier", are uniform in +-1 / sqrt(in_features); BatchNorm has weight 1 and bias 0. Weights
    are drawn in the order of the modules, so equal generators give equal networks.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d) and initialization == "xavier":
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Conv2d) and initialization == "kaiming":
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(layer.weight[0].numel())  # the fan-in
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
