"""Equality of tensors, bit for bit, as a short text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def digest(tensors: Mapping[str, Any], *, extra_state: bool = False) -> str:
    """Return the SHA-256 of named tensors: equal only if names, shapes, types and every bit are.

    A module's extra state (its settings) is left out, unless `extra_state` and it is a tensor.
    """
    total = hashlib.sha256()
    for name in sorted(tensors):
        if not isinstance(tensors[name], Tensor) or (name.endswith("_extra_state") and not extra_state):
            continue
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
