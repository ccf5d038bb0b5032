"""Where and how a run is computed: device, precision, processes, compilation."""

from functools import partial
from typing import Literal

import torch
from torch import nn

from gplasc.errors import UserError
from gplasc.learning.distributed import Processes
from gplasc.models import Network

# Channels of the first stage from which bfloat16 pays where a device computes it: measured, see docs/performance.md.
# With fewer, and in encoders that are not named here, it saves nothing or costs time.
_PAYS_FROM = {"resnet18": 16, "resnet18-fast": 16, "resnet10-fast": 16, "resnet18-imagenet": 16, "small": 32}


def computes_bfloat16(device: str) -> bool:
    """Return whether the device has instructions for bfloat16: AVX-512 BF16 (all with AMX have it), CUDA 8.0 and up."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return kind == "cpu" and torch.cpu._is_avx512_bf16_supported()


def choose_precision(
    encoder: str, width: int, *, trained: bool, native: bool
) -> Literal["float32", "bfloat16"]:
    """Return the precision that "auto" stands for: bfloat16 where it is native and makes the encoder's training faster.

    An encoder of the user's own, of which nothing was measured, stays in float32, and so does a frozen one.
    """
    pays = trained and width >= _PAYS_FROM.get(encoder, width + 1)
    return "bfloat16" if native and pays else "float32"


class Hardware:
    """The device, the precision of convolutions and linear layers, and the processes of a run, each with its learner.

    `autocast` returns the context manager in which the networks run. `scaler` keeps small gradients in float16; it does
    nothing in other precisions.
    """

    def __init__(
        self,
        device: str = "cpu",
        precision: Literal["float32", "bfloat16", "float16"] = "float32",
        processes: Processes | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        self.device = torch.device(device)
        self.processes = processes or Processes()
        self.compiled = compiled
        low, kind = precision != "float32", self.device.type
        dtype = torch.float16 if precision == "float16" else torch.bfloat16
        self.autocast = partial(torch.autocast, kind, dtype=dtype, enabled=low)
        scaled = precision == "float16"
        self.scaler = torch.amp.GradScaler(kind if scaled else "cpu", enabled=scaled)

    def prepare(self, modules: nn.ModuleDict) -> nn.ModuleDict:
        """Move everything trainable to the device, convolution weights channels last, and compile the encoder in place.

        Names of weights stay as they are. The heads and the losses are not compiled: they are small, and their shapes
        change from task to task.
        """
        modules = modules.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        network = modules["network"]
        if self.compiled and isinstance(network, Network):
            network.encoder.compile()
        return modules


def check_device(device: str | None) -> str:
    """Return the device to compute on, which this machine must have; default: the accelerator if there is one."""
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
