"""What the criterion, its loop and the plug-in compute alike: rows of several parts as one tensor, distillation."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from gplasc.losses import kernels

Distillation = Literal["mse", "ird", "projector"]
"""The distance between past features and those of the previous model."""

_STUDENT_TEMPERATURE, _TEACHER_TEMPERATURE = 0.2, 0.01  # of "ird"


def gather(rows: Sequence[Tensor]) -> Tensor:
    """Return the rows of several tensors as one tensor."""
    return rows[0] if len(rows) == 1 else torch.cat(list(rows))


def unit(features: Tensor, *, limit_gradient: bool = False) -> Tensor:
    """Return unit rows (N, D); with `limit_gradient` their gradient is at most that of features of norm 1."""
    z = kernels.unit(features)
    if not limit_gradient:
        return z
    scale = torch.linalg.vector_norm(kernels.promote(features.detach()), dim=1, keepdim=True).clamp(max=1)
    fixed = z.detach()
    limited: Tensor = fixed + scale * (z - fixed)
    return limited


def distill(
    student: Tensor,
    teacher: Tensor,
    weights: Mapping[str, float],
    projector: nn.Module | None = None,
    *,
    limit_gradient: bool = False,
) -> Tensor:
    """Return the weighted sum of the distillations between raw features (M, D) now and before."""
    total = kernels.promote(student).sum() * 0.0
    for name, weight in weights.items():
        if name == "projector":
            assert projector is not None
            term = kernels.projected_distance(kernels.promote(student), kernels.promote(teacher), projector)
        else:
            now, before = unit(student, limit_gradient=limit_gradient), kernels.unit(teacher)
            if name == "mse":
                term = kernels.feature_distance(now, before)
            else:
                term = kernels.relation(now, before, _STUDENT_TEMPERATURE, _TEACHER_TEMPERATURE)
        total = total + weight * term
    return total
