"""Argument checks, reductions and precision, shared by all losses.

Shapes and types are metadata: checking them does not read the data. Whether rows have unit length does need the data.
On the CPU that is one pass over (N, D) beside the (N, N, D) work of the loss, and it is done at every call. On other
devices it would synchronize the device, so there only the first call of each loss in a process checks it;
`check_unit_rows` always does. Inside torch.compile nothing is checked.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

Reduction = Literal["mean", "sum", "none"]
"""Over rows, as in PyTorch's losses."""
DimensionReduction = Literal["sum", "mean"]
"""Of squared differences over the D coordinates."""

_LABEL_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_LOW_PRECISION = (torch.float16, torch.bfloat16)
# Rows that were normalized in bfloat16 are off by up to 0.4 %.
_LENGTH_TOLERANCE = 1e-2
_checked: set[tuple[str, str]] = set()


def full_precision(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Return a context without autocast on the tensor's device, so that float32 arithmetic stays float32."""
    kind = tensor.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()


def promote(tensor: Tensor) -> Tensor:
    """Convert half precision to float32; float32 and float64 stay."""
    return tensor.float() if tensor.dtype in _LOW_PRECISION else tensor


def unit_rows(features: Tensor, *, eps: float = 1e-12) -> Tensor:
    """Divide each row by its norm.

    A row whose norm is at most `eps` is returned unchanged and has an ordinary gradient; a division by `eps` would
    multiply its gradient by 1 / eps.

    Args:
        features: Rows of shape (N, D), floating point.
        eps: The largest norm of a row that is not divided.

    Returns:
        Rows of shape (N, D), float32 or float64.

    Raises:
        TypeError: If `features` is not a floating-point tensor.
        ValueError: If `features` is not a matrix.
    """
    require_rows("features", features)
    with full_precision(features):
        features = promote(features)
        length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
        return features / torch.where(length > eps, length, torch.ones_like(length))


def check_unit_rows(z: Tensor, name: str = "z") -> None:
    """Raise an error unless all rows have unit length. Synchronizes the device.

    Rows of zeros pass, since normalizing a zero vector returns one. Rows that are not finite pass too: the training
    loop can name the term and the step where they first occurred.

    Args:
        z: Rows of shape (N, D).
        name: The name of the argument in the error message.

    Raises:
        ValueError: If a row has another length.
    """
    if len(z) == 0:
        return
    length = torch.linalg.vector_norm(promote(z.detach()), dim=1)
    wrong = ((length - 1).abs() > _LENGTH_TOLERANCE) & (length > 0) & length.isfinite()
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(
            f"{name} must have rows of length 1, but row {row} has length {float(length[row]):.4g}: "
            "normalize first, for example with gplasc.losses.unit_rows."
        )


def require_unit_rows(caller: str, name: str, z: Tensor) -> None:
    """Call `check_unit_rows` where it does not synchronize a device (see the top of this file)."""
    if torch.compiler.is_compiling() or z.device.type == "meta":
        return
    if z.device.type != "cpu":
        key = (caller, name)
        if key in _checked:
            return
        _checked.add(key)
    check_unit_rows(z, name)


def require_tensor(name: str, value: Any) -> None:
    """Require a tensor: lists and arrays are not converted, since they have no gradient and no device."""
    if not isinstance(value, Tensor):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"{name} must be a torch.Tensor, got {kind}: convert it with torch.as_tensor.")


def require_rows(name: str, value: Tensor) -> None:
    """Require a floating-point matrix (N, D)."""
    require_tensor(name, value)
    if value.ndim != 2:
        raise ValueError(f"{name} must have shape (N, D), got {tuple(value.shape)}.")
    if not value.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {value.dtype}: convert it with .float().")


def require_pair(names: tuple[str, str], first: Tensor, second: Tensor, *, same_width: bool) -> None:
    """Require two matrices with the same number of rows and, with `same_width`, of the same shape."""
    for name, value in zip(names, (first, second), strict=True):
        require_rows(name, value)
    if len(first) != len(second) or (same_width and first.shape != second.shape):
        raise ValueError(
            f"{names[0]} and {names[1]} must describe the same rows, got shapes {tuple(first.shape)} "
            f"and {tuple(second.shape)}."
        )


def require_labels(y: Tensor, rows: int, name: str = "y") -> None:
    """Require integer labels (N,)."""
    require_tensor(name, y)
    if y.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), one label per row, got {tuple(y.shape)}.")
    if y.dtype not in _LABEL_TYPES:
        raise TypeError(f"{name} must hold integer labels, got {y.dtype}: convert it with .long().")


def require_mask(name: str, mask: Tensor, rows: int) -> None:
    """Require a boolean mask (N,)."""
    require_tensor(name, mask)
    if mask.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), one flag per row, got {tuple(mask.shape)}.")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name} must be a boolean mask, got {mask.dtype}: compare to obtain one.")


def require_gram(name: str, gram: Tensor, rows: int) -> None:
    """Require the cosines of all pairs (N, N)."""
    require_tensor(name, gram)
    if gram.shape != (rows, rows):
        raise ValueError(f"{name} must have shape ({rows}, {rows}), got {tuple(gram.shape)}.")
    if not gram.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {gram.dtype}.")


def require_positive(name: str, value: float) -> None:
    """Require a number above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be greater than 0, got {value}.")


def require_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Require one of a few strings."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


def reduce_rows(per_row: Tensor, reduction: Reduction) -> Tensor:
    """Reduce (N,) by "none", "sum" or "mean"; the mean without rows is 0 and part of the graph."""
    if reduction == "none":
        return per_row
    total = per_row.sum()
    return total / max(1, len(per_row)) if reduction == "mean" else total
