"""What every loss asks of its arguments, at no cost in the loop.

Shapes and types are metadata: checking them never looks at the data. Whether rows have unit length does
need the data. On the CPU that is one pass over (N, D) beside the (N, N, D) work of the loss and is done at
every call. On other devices the answer would make the host wait for the device, so there only the first
call of each loss in the process asks, which is when a forgotten normalization shows; `check_unit_rows` asks
at any time. Inside torch.compile nothing is asked.
"""

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor

_LABEL_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_LOW_PRECISION = (torch.float16, torch.bfloat16)
# Rows that were normalized in bfloat16 are off by up to 0.4 %.
_LENGTH_TOLERANCE = 1e-2
_asked: set[tuple[str, str]] = set()


def full_precision(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Context without autocast on the tensor's device, so that float32 arithmetic stays float32."""
    kind = tensor.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()


def promote(tensor: Tensor) -> Tensor:
    """Half precision becomes float32; float32 and float64 stay."""
    return tensor.float() if tensor.dtype in _LOW_PRECISION else tensor


def unit_rows(features: Tensor, *, eps: float = 1e-12) -> Tensor:
    """Rows of `features` (N, D) divided by their length, in float32 or better.

    A row shorter than eps stays as it is and gets an ordinary gradient, where a division by eps would
    send a gradient of 1 / eps through the network.
    """
    require_rows("features", features)
    with full_precision(features):
        features = promote(features)
        length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
        return features / torch.where(length > eps, length, torch.ones_like(length))


def check_unit_rows(z: Tensor, name: str = "z") -> None:
    """Raise ValueError unless every row of `z` (N, D) has length 1. Waits for the device.

    Rows of zeros pass (normalizing a zero vector yields one); rows that are not finite pass too, since
    the training loop can name the term and the step where that began.
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
    """`check_unit_rows`, but only when it costs nothing (see the top of this file)."""
    if torch.compiler.is_compiling() or z.device.type == "meta":
        return
    if z.device.type != "cpu":
        key = (caller, name)
        if key in _asked:
            return
        _asked.add(key)
    check_unit_rows(z, name)


def require_rows(name: str, value: Tensor) -> None:
    """A floating-point matrix (N, D)."""
    if value.ndim != 2:
        raise ValueError(f"{name} must have shape (N, D), got {tuple(value.shape)}.")
    if not value.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {value.dtype}: convert it with .float().")


def require_pair(names: tuple[str, str], first: Tensor, second: Tensor, *, same_width: bool) -> None:
    """Two matrices of the same number of rows, and of the same width when asked."""
    for name, value in zip(names, (first, second), strict=True):
        require_rows(name, value)
    if len(first) != len(second) or (same_width and first.shape != second.shape):
        raise ValueError(
            f"{names[0]} and {names[1]} must describe the same rows, got shapes {tuple(first.shape)} "
            f"and {tuple(second.shape)}."
        )


def require_labels(y: Tensor, rows: int) -> None:
    """Integer labels (N,)."""
    if y.shape != (rows,):
        raise ValueError(f"y must have shape ({rows},), one label a row, got {tuple(y.shape)}.")
    if y.dtype not in _LABEL_TYPES:
        raise TypeError(f"y must hold integer labels, got {y.dtype}: convert it with .long().")


def require_mask(name: str, mask: Tensor, rows: int) -> None:
    """Boolean mask (N,)."""
    if mask.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), one flag a row, got {tuple(mask.shape)}.")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name} must be a boolean mask, got {mask.dtype}: compare to obtain one.")


def require_gram(name: str, gram: Tensor, rows: int) -> None:
    """Cosines of all pairs (N, N)."""
    if gram.shape != (rows, rows):
        raise ValueError(f"{name} must have shape ({rows}, {rows}), got {tuple(gram.shape)}.")
    if not gram.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {gram.dtype}.")


def require_positive(name: str, value: float) -> None:
    """A number above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be greater than 0, got {value}.")


def require_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """One of a few words."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


def reduce_rows(per_row: Tensor, reduction: str) -> Tensor:
    """`none`, `sum`, or the mean over rows, which is 0 (with its graph) without rows."""
    if reduction == "none":
        return per_row
    total = per_row.sum()
    return total / max(1, len(per_row)) if reduction == "mean" else total
