"""Geometry of the features on the sphere: centers and radii of the tasks, drift of past classes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gplasc.geometry import Region


def diagnose(
    means: list[Tensor],
    learned: list[Tensor],
    *,
    region: Region | None = None,
    vertices: Tensor | None = None,
    last_step: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Describe the geometry of the tasks seen so far.

    means: for each task, the current class means (C_t, D); learned: those when it had just been learned. With GPLASC
    also the region of the current task in theory, the prepared directions (K, D), and measurements of the last step.
    radius is the root mean square distance of the class means from their center, drift their mean distance from
    `learned`; center_cosine_mean and center_cosine_max are over pairs of different tasks.
    """
    centers = [m.mean(0) for m in means]
    directions = normalize(torch.stack(centers), dim=1)
    cosines = directions @ directions.T
    between = cosines[_off_diagonal(cosines)]
    result: dict[str, Any] = {
        "center_norm": [c.norm().item() for c in centers],
        "radius": [(m - c).square().sum(1).mean().sqrt().item() for m, c in zip(means, centers, strict=True)],
        "center_cosines": cosines.tolist(),
        "center_cosine_mean": between.mean().item() if len(between) else None,
        "center_cosine_max": between.max().item() if len(between) else None,
        "drift": [(m - p).norm(dim=1).mean().item() for m, p in zip(means, learned, strict=True)],
    }
    if vertices is not None:
        result["vertex_cosine"] = (directions * vertices[: len(centers)].to(directions)).sum(1).tolist()
        result["etf_cosine"] = -1.0 / (len(vertices) - 1) if len(vertices) > 1 else None
    if region is not None:
        result["theory"] = {"radius": region.radius, "center_norm": region.center_norm}
        current = normalize(means[-1], dim=1)
        pairs = (current @ current.T)[_off_diagonal(current)]
        result["threshold"] = region.k
        result["pairs_below_threshold"] = (pairs < region.k).float().mean().item() if len(pairs) else 0.0
    if last_step is not None:
        result["last_step"] = dict(last_step)
    return result


def append_diagnosis(history: list[dict[str, Any]], diagnosis: dict[str, Any]) -> None:
    """Append the result of `diagnose`; only the last entry keeps the matrix of cosines, so that a run stays small."""
    for earlier in history:
        earlier.pop("center_cosines", None)
    history.append(diagnosis)


def _off_diagonal(rows: Tensor) -> Tensor:
    return ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)
