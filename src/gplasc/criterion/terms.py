"""What the criterion, its loop and the plug-in compute alike; arguments are trusted."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from gplasc.criterion.monitor import Monitor
from gplasc.losses import kernels
from gplasc.losses.kernels import RangeForm

Distillation = Literal["mse", "ird", "projector"]
"""The distance between past features and those of the previous model."""

_STUDENT_TEMPERATURE, _TEACHER_TEMPERATURE = 0.2, 0.01  # of "ird"


def gather(*pairs: tuple[Tensor, Tensor | slice]) -> Tensor:
    """Return the given rows of several tensors as one tensor."""
    rows = [values[index] for values, index in pairs]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def unit(features: Tensor, *, limit_gradient: bool = False) -> Tensor:
    """Return unit rows (N, D); with `limit_gradient` their gradient is at most that of features of norm 1."""
    z = kernels.unit(features)
    if not limit_gradient:
        return z
    scale = torch.linalg.vector_norm(kernels.promote(features.detach()), dim=1, keepdim=True).clamp(max=1)
    fixed = z.detach()
    limited: Tensor = fixed + scale * (z - fixed)
    return limited


def range_term(z: Tensor, y: Tensor, k: float | Tensor, form: RangeForm, monitor: Monitor) -> Tensor:
    """Return the range loss of unit rows (N, D)."""
    pairs = kernels.range_pairs(z, y, k, form)
    monitor.note(threshold=k, active_hinge_fraction=pairs.active_fraction)
    return pairs.loss


def position_term(
    z: Tensor, y: Tensor, vertex: Tensor, norm: float | Tensor | None, monitor: Monitor
) -> Tensor:
    """Return the squared distance of the center of unit rows (N, D) to the vertex (D,), or to `norm` times it."""
    center = kernels.task_center(z, y)
    vertex = vertex.to(center.dtype)
    monitor.note(
        center_norm=torch.linalg.vector_norm(center.detach()),
        center_cosine=kernels.center_cosine(center.detach(), vertex),
        target_norm=1.0 if norm is None else norm,
    )
    return kernels.position(center, vertex, norm)


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
            now = unit(student, limit_gradient=True) if limit_gradient else kernels.unit(student)
            before = kernels.unit(teacher)
            if name == "mse":
                term = kernels.feature_distance(now, before)
            else:
                term = kernels.relation(now, before, _STUDENT_TEMPERATURE, _TEACHER_TEMPERATURE)
        total = total + weight * term
    return total
