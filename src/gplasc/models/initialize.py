"""Starting weights, drawn from a generator that the caller owns."""

from __future__ import annotations

import math

import torch
from torch import nn


def initialize(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw the weights of every convolution and linear layer inside `module` anew.

    Convolutions: Kaiming normal with fan-out, as in the ResNets of Co2L. Linear layers: torch's own
    default, uniform in +-1/sqrt(inputs). BatchNorm: scale 1, shift 0. Without a generator torch's
    global one is used. Weights are drawn in the order of the modules, so equal generators give equal nets.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
