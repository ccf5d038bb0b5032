"""Where features lie on the sphere: task centers, radii, and how far past classes have moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gplasc.geometry import Region


def class_means(z: Tensor, y: Tensor, classes: range) -> Tensor:
    """Mean of each class's unit rows: z (N, D), y (N,) to (len(classes), D)."""
    return torch.stack([z[y == label].mean(0) for label in classes])


def diagnose(
    means: list[Tensor],
    learned: list[Tensor],
    *,
    region: Region | None = None,
    vertices: Tensor | None = None,
    last_step: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Describe the geometry of the tasks seen so far.

    means: class means (C_t, D) of each task now; learned: the same as they were when the task had just been learned;
    region: what the theory says of the current task's region, vertices: (K, D) the prepared centers, last_step: what
    the plug-in's terms saw in the last step of training (share of active pairs, ...); all None without GPLASC.

    The radius is the root mean square distance of a task's class means from their center; drift is the distance a class
    mean has moved since its task was learned.
    """
    centers = [m.mean(0) for m in means]
    directions = normalize(torch.stack(centers), dim=1)
    cosines = directions @ directions.T
    result: dict[str, Any] = {
        "center_norm": [c.norm().item() for c in centers],
        "radius": [(m - c).square().sum(1).mean().sqrt().item() for m, c in zip(means, centers, strict=True)],
        "center_cosines": cosines.tolist(),
        "drift": [(m - p).norm(dim=1).mean().item() for m, p in zip(means, learned, strict=True)],
    }
    if vertices is not None:
        found = vertices[: len(centers)].to(directions)
        result["vertex_cosine"] = (directions * found).sum(1).tolist()
        result["etf_cosine"] = -1.0 / (len(vertices) - 1) if len(vertices) > 1 else None
    if region is not None:
        result["theory"] = {"radius": region.radius, "center_norm": region.center_norm}
        current = normalize(means[-1], dim=1)
        pairs = (current @ current.T)[~torch.eye(len(current), dtype=torch.bool, device=current.device)]
        result["threshold"] = region.k
        result["pairs_below_threshold"] = (pairs < region.k).float().mean().item() if len(pairs) else 0.0
    if last_step is not None:
        result["last_step"] = dict(last_step)
    return result
