"""Argument checks of the public losses.

Shapes and types are metadata: checking them does not read the data. Whether rows have unit length does need the data.
On the CPU that is one pass over (N, D) beside the (N, N, D) work of the loss, and it is done at every call. On other
devices it would synchronize the device, so there only the first call of each loss in a process checks it. Inside
torch.compile nothing is checked.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gplasc.losses.kernels import promote

_LABEL_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Rows that were normalized in bfloat16 are off by up to 0.4 %.
_LENGTH_TOLERANCE = 1e-2
_checked: set[tuple[str, str]] = set()


def check_tensor(name: str, value: Any) -> None:
    """Require a tensor: lists and arrays are not converted, since they have no gradient and no device."""
    if not isinstance(value, Tensor):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"{name} must be a torch.Tensor, got {kind}: convert it with torch.as_tensor.")


def check_rows(name: str, value: Tensor, width: int | None = None) -> None:
    """Require a floating-point matrix (N, D), with `width` of so many columns."""
    check_tensor(name, value)
    if value.ndim != 2:
        raise ValueError(f"{name} must have shape (N, D), got {tuple(value.shape)}.")
    if not value.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {value.dtype}: convert it with .float().")
    if width is not None and value.shape[1] != width:
        raise ValueError(
            f"{name} must have shape (N, {width}), got {tuple(value.shape)}: "
            "feature_dim is the width of the encoder's output."
        )


def check_pair(names: tuple[str, str], first: Tensor, second: Tensor, *, same_width: bool) -> None:
    """Require two matrices with the same number of rows and, with `same_width`, of the same shape."""
    for name, value in zip(names, (first, second), strict=True):
        check_rows(name, value)
    if len(first) != len(second) or (same_width and first.shape != second.shape):
        raise ValueError(
            f"{names[0]} and {names[1]} must describe the same rows, got shapes {tuple(first.shape)} "
            f"and {tuple(second.shape)}."
        )


def check_labels(y: Tensor, rows: int, name: str = "y") -> None:
    """Require integer labels (N,)."""
    check_tensor(name, y)
    if y.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), one label per row, got {tuple(y.shape)}.")
    if y.dtype not in _LABEL_TYPES:
        raise TypeError(f"{name} must hold integer labels, got {y.dtype}: convert it with .long().")


def check_mask(name: str, mask: Tensor, rows: int) -> None:
    """Require a boolean mask (N,)."""
    check_tensor(name, mask)
    if mask.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), one flag per row, got {tuple(mask.shape)}.")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name} must be a boolean mask, got {mask.dtype}: compare to obtain one.")


def check_positive(name: str, value: float) -> None:
    """Require a number above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be greater than 0, got {value}.")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Require one of a few strings."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


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
