"""Argument checks of the public losses and of the criterion.

Shapes and types are checked at every call. Whether rows have unit length is read from the data: on the CPU at every
call, on other devices, which this synchronizes, at the first call of each loss, inside torch.compile never.
"""

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from gplasc.losses.kernels import promote

Kind = Literal["features", "labels", "mask"]
_Shape = tuple[int | str, ...]
_LABEL_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Rows that were normalized in bfloat16 are off by up to 0.4 %.
_LENGTH_TOLERANCE = 1e-2
_checked: set[tuple[str, str]] = set()


def check_tensor(name: str, value: Any, shape: _Shape = ("N", "D"), kind: Kind = "features") -> None:
    """Require a tensor of a shape, in which a letter is any number, with entries of a kind.

    Lists and arrays are not converted, since they have no gradient and no device.
    """
    if not isinstance(value, Tensor):
        wrong = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"{name} must be a torch.Tensor, got {wrong}: convert it with torch.as_tensor.")
    right = [isinstance(want, str) or want == size for want, size in zip(shape, value.shape, strict=False)]
    if value.ndim != len(shape) or not all(right):
        text = str(shape).replace("'", "")
        one_hot = f" Pass class numbers: {name}.argmax(1)." if kind == "labels" and value.ndim == 2 else ""
        raise ValueError(f"{name} must have shape {text}, got {tuple(value.shape)}.{one_hot}")
    if kind == "features" and not value.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {value.dtype}: convert it with .float().")
    if kind == "labels" and value.dtype not in _LABEL_TYPES:
        raise TypeError(f"{name} must hold integer labels, got {value.dtype}: convert it with .long().")
    if kind == "mask" and value.dtype != torch.bool:
        raise TypeError(f"{name} must be a boolean mask, got {value.dtype}: compare to obtain one.")


def check_positive(name: str, value: float) -> None:
    """Require a number above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be greater than 0, got {value}.")


def check_choice(name: str, value: str, choices: object) -> None:
    """Require one of the strings of a `Literal`."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}; got {value!r}.")


def check_unit(caller: str, name: str, z: Tensor) -> None:
    """Require rows of unit length, where checking them does not synchronize a device (see the top of this file).

    Rows of zeros pass, since normalizing a zero vector returns one. Rows that are not finite pass too: the training
    loop can name the term and the step where they first occurred.
    """
    if torch.compiler.is_compiling() or z.device.type == "meta" or len(z) == 0:
        return
    if z.device.type != "cpu":
        if (caller, name) in _checked:
            return
        _checked.add((caller, name))
    length = torch.linalg.vector_norm(promote(z.detach()), dim=1)
    wrong = ((length - 1).abs() > _LENGTH_TOLERANCE) & (length > 0) & length.isfinite()
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(
            f"{name} must have rows of length 1, but row {row} has length {float(length[row]):.4g}: "
            "normalize first, for example with gplasc.losses.unit_rows."
        )
