"""Where and how a run is computed: precision, memory format, compilation, and what is kept on the device."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from gplasc.errors import UserError
from gplasc.models import Network

Precision = Literal["float32", "bfloat16", "float16"]
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Return the context manager in which the networks run: convolutions and linear layers in ``precision``."""
    dtype = _DTYPES[precision]
    enabled = dtype is not torch.float32
    return torch.autocast(device.type, dtype=dtype if enabled else torch.bfloat16, enabled=enabled)


def new_scaler(device: torch.device, precision: Precision) -> torch.amp.GradScaler:
    """Return the loss scaling that float16 needs to keep small gradients; it does nothing in other precisions.

    A scaled step reads on the CPU whether a gradient is infinite, which synchronizes the device once a step.
    """
    enabled = precision == "float16"
    return torch.amp.GradScaler(device.type if enabled else "cpu", enabled=enabled)


def prepare(modules: nn.ModuleDict, device: torch.device) -> nn.ModuleDict:
    """Move everything trainable to the device, convolution weights in the channels-last memory format."""
    return modules.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def compile_encoder(network: Network) -> None:
    """Compile the encoder in place with ``torch.compile``; names of weights stay as they are.

    The heads and the losses are not compiled: they are small, and their shapes change from task to task.
    """
    network.encoder.compile()


def fits(num_bytes: int, device: torch.device) -> bool:
    """Return whether to keep so many bytes of images on the device: up to a quarter of the free memory of a GPU."""
    return device.type == "cuda" and num_bytes <= torch.cuda.mem_get_info(device)[0] // 4


def check_device(device: str | None) -> str:
    """Return the device to compute on; default: the accelerator if there is one.

    Raises:
        UserError: If this machine does not have the device.
    """
    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        there = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        there += ["mps"] if torch.backends.mps.is_available() else []
        raise UserError(
            f"the device '{device}' cannot be used ({reason}); this machine has: {', '.join(['cpu', *there])}"
        ) from None
    return device
