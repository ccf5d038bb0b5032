"""What bfloat16 saves in forward and backward of each encoder: where "auto" chooses it, it must pay."""

from __future__ import annotations

from functools import partial

import torch
from benchmarks.speed.clock import alternate, ratio
from benchmarks.speed.figure import Figure
from torch import Tensor

from gplasc.learning.devices import choose_precision
from gplasc.models import Encoder, build_encoder

_CASES = (  # encoder, width, pixels, channels, images
    ("resnet18", 64, 32, 3, 32),
    ("resnet18", 16, 32, 3, 128),
    ("resnet18-imagenet", 16, 64, 3, 64),
    ("resnet10-fast", 16, 32, 3, 128),
    ("resnet10-fast", 8, 32, 3, 128),
    ("small", 32, 28, 1, 64),
    ("small", 32, 8, 1, 64),
    ("small", 4, 8, 1, 32),
    ("mlp", 100, 28, 1, 64),
)


def measure_precision(quick: bool) -> list[Figure]:
    """Measure passes in float32 against bfloat16; there is a bar where the precision "auto" is bfloat16."""
    figures = []
    for name, width, pixels, channels, images in _CASES[-3:] if quick else _CASES:
        generator = torch.Generator().manual_seed(0)
        encoder = build_encoder(name, in_channels=channels, width=width, generator=generator)
        encoder = encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = torch.randn(images, channels, pixels, pixels, generator=generator)
        x = x.contiguous(memory_format=torch.channels_last)
        works = {low: partial(_pass, encoder, x, low=low == "bfloat16") for low in ("float32", "bfloat16")}
        value = ratio(alternate(works, 3 if quick else 15), "float32", "bfloat16")
        chosen = choose_precision(name, width, trained=True, native=True)
        title = f"float32 / bfloat16, {name}, width {width}, {images} images of {pixels} px"
        figures.append(Figure("precision", title, value, 1.0 if chosen == "bfloat16" else None, "least"))
    return figures


def _pass(encoder: Encoder, x: Tensor, *, low: bool) -> None:
    encoder.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        features = encoder(x)
    features.float().sum().backward()
