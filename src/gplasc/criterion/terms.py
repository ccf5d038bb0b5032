"""What the criterion, its loop and the plug-in compute alike; arguments are trusted."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gplasc.criterion.monitor import Monitor
from gplasc.criterion.regions import Regions
from gplasc.losses import kernels
from gplasc.losses.checks import check_choice
from gplasc.losses.kernels import RangeForm

Distillation = Literal["mse", "ird", "projector"]
"""The distance between past features and those of the previous model."""

PLACE_TEMPERATURE, PLACE_WEIGHT = 0.1, 5.0
"""Of the cosines with the places of classes, in training and at prediction, and their weight at prediction."""
_STUDENT_TEMPERATURE, _TEACHER_TEMPERATURE = 0.2, 0.01  # of "ird"


def parse_distillation(value: str | Mapping[str, float]) -> dict[str, float]:
    """Return the weights of a sum of distillations that is given as text or by name; weights of 0 are left out.

    >>> parse_distillation("mse+ird:0.5"), parse_distillation("none")
    ({'mse': 1.0, 'ird': 0.5}, {})
    """
    if isinstance(value, str):
        items = (item.strip().partition(":") for item in value.split("+"))
        value = {name: float(weight or 1.0) for name, _, weight in items if name != "none"}
    for name, weight in value.items():
        check_choice("distillation", name, Distillation)
        if not weight >= 0:
            raise ValueError(f"the weight of distillation {name!r} must be 0 or more, got {weight}.")
    return {name: float(weight) for name, weight in value.items() if weight > 0}


def gather(*pairs: tuple[Tensor, Tensor | slice]) -> Tensor:
    """Return the given rows of several tensors as one tensor."""
    rows = [values[index] for values, index in pairs]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def region_terms(
    z: Tensor,
    y: Tensor,
    task: int | None,
    regions: Regions,
    monitor: Monitor,
    weights: Mapping[str, float],
    *,
    form: RangeForm,
    scaled: bool,
) -> dict[str, Tensor]:
    """Return "range" and "position" of the unit rows (N, D) of a task, times their weights if these are above 0.

    Both are 0 if there is nothing to separate, or no region for the task. The position's target is the vertex, if
    `scaled` with the norm that fits the threshold.
    """
    weights = {name: weight for name, weight in weights.items() if weight > 0}
    terms = {name: z.sum() * 0.0 for name in weights}
    if task is None or task >= regions.num_tasks:
        return terms
    if regions.frame == "auto":
        regions.settle_frame(z)
    k, norm = regions.threshold(y, task)
    if regions.training and regions.frame != "auto":
        hinge = "range" in weights and form in ("hinge", "squared_hinge")
        monitor.inspect(z, regions, task, hinge=hinge, position="position" in weights)
    if "range" in weights and not regions.alone:
        pairs = kernels.range_pairs(z, y, k, form)
        monitor.note(threshold=k, active_hinge_fraction=pairs.active_fraction)
        terms["range"] = weights["range"] * pairs.loss
    if "position" in weights and not regions.alone and len(z):
        center = kernels.task_center(z, y)
        vertex = regions.vertices[task].to(center.dtype)
        monitor.note(
            center_norm=torch.linalg.vector_norm(center.detach()),
            center_cosine=kernels.center_cosine(center.detach(), vertex),
            target_norm=norm if scaled else 1.0,
        )
        terms["position"] = weights["position"] * kernels.position(center, vertex, norm if scaled else None)
    return terms


def add_places(scores: Tensor | float, features: Tensor, places: Tensor, weight: float) -> Tensor:
    """Add the weighted log-probabilities of the places, which are divided by the temperature, (C, D), to scores."""
    return scores + weight * (kernels.unit(features) @ places.to(features).T).log_softmax(dim=1)


class WithPlaces(nn.Module):
    """Adds to scores the weighted log-probabilities of places (C, D), which are divided by the temperature."""

    places: Tensor

    def __init__(self, predictor: nn.Module, places: Tensor, weight: float) -> None:
        super().__init__()
        self.predictor = predictor
        self.weight = weight
        self.register_buffer("places", places)

    def forward(self, features: Tensor) -> Tensor:
        """Map raw features, (N, D), to scores, (N, C)."""
        return add_places(self.predictor(features), features, self.places, self.weight)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(f"{prefix}place_of", None)  # of an older state: the place of each class
        super()._load_from_state_dict(state_dict, prefix, *rest)


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
            now = kernels.unit(student, limit_gradient=limit_gradient)
            before = kernels.unit(teacher)
            if name == "mse":
                term = kernels.feature_distance(now, before)
            else:
                term = kernels.relation(now, before, _STUDENT_TEMPERATURE, _TEACHER_TEMPERATURE)
        total = total + weight * term
    return total
