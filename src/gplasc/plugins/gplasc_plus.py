"""GPLASC+: the prepared places on the sphere as a fixed classifier of current and remembered samples."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from gplasc.criterion.regions import Regions
from gplasc.geometry import class_places, region
from gplasc.learning import Context, Part
from gplasc.losses import kernels
from gplasc.models import Network, Prototypes
from gplasc.plugins.gplasc import GPLASCPlugin, GPLASCSettings


class _Settings(GPLASCSettings):
    """Settings of the plug-in: those of GPLASC with range, position and its own SupCon off, and the assignment."""

    RENAMED: ClassVar[Mapping[str, str]] = {"prototypes": "places", "prototype_weight": "evidence"}

    lambda_range: float = Field(0.0, ge=0)
    lambda_position: float = Field(0.0, ge=0)
    lambda_contrast: float = Field(
        0.0, ge=0, description="of SupCon, with a method that has no contrastive term"
    )
    prototypes: Literal["class", "task", "trained"] = Field(
        "class",
        description="what is assigned: a class to its place inside the task's region, or a task to its vertex; "
        "trained: a class to a place that is trained like a weight (a control: nothing is prepared)",
    )
    lambda_assign: float = Field(1.0, ge=0, description="weight of the cross-entropy against the places")
    assign_temperature: float = Field(0.05, gt=0)
    prototype_weight: float = Field(
        1.0,
        ge=0,
        description="weight, at prediction, of the log-probability of a place; 0 leaves the predictor alone",
    )


class GPLASCPlus(GPLASCPlugin):
    """Adds an assignment of all rows to prepared places, and the distillation of GPLASC.

    A task has a vertex of the frame; its classes have places around it, see `gplasc.geometry.class_places`. The
    assignment is the cross-entropy of unit features against the places of all classes seen and the vertices of the
    tasks to come, which stay free. It is a mean over classes of means over rows, so that the few rows of a past class
    count as much as those of a new one. At prediction, the log-probability of a class's place is added to its score.
    """

    LIKE = "gplasc-plus"
    Settings = _Settings
    DEVIATIONS = (
        "not in the paper: range and position are replaced by a cross-entropy against fixed places, in which the "
        "remembered samples take part; both can be switched on too",
        "prototypes='class': the classes of a task have fixed places too, where the optimum of the theorem puts them; "
        "the paper prepares the centers of the tasks alone",
        "prototype_weight: at prediction the log-probability of a class's place is added to the score of the method's "
        "predictor; the paper predicts with the predictor alone",
    )
    settings: _Settings

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._orientation = 0  # of the classes inside the regions
        self._inside: dict[tuple[int, int], Tensor] = {}
        self._prepared: tuple[tuple[int, ...], Tensor, Tensor] | None = None

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Prepare the regions, and the orientation of the classes inside them."""
        modules = super().modules(ctx, network)
        self._orientation = int(torch.randint(2**31, (1,), generator=ctx.random["gplasc.frame"]))
        if self.settings.prototypes == "trained":
            generator = ctx.random["weights.places"]
            modules["places"] = Prototypes(ctx.num_classes, network.feature_dim, generator=generator)
        return modules

    def grow(self, ctx: Context, num_classes: int) -> None:
        """Add trained places of classes that were not announced."""
        if self.settings.prototypes == "trained":
            _trained(ctx).grow(num_classes, generator=ctx.random["weights.growth"])

    def loss(self, method_parts: dict[str, Part], parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the terms of GPLASC and the assignment of all rows."""
        terms = super().loss(method_parts, parts, ctx)
        if self.settings.lambda_assign > 0:
            places, place_of = self._places(ctx)
            everything = [*method_parts.values(), *parts.values()]
            rows = torch.cat([part.out.features for part in everything])
            labels = torch.cat([part.y for part in everything])
            temperature = self.settings.assign_temperature
            loss = kernels.assignment(kernels.unit(rows), place_of[labels], places, temperature)
            terms["assign"] = self.settings.lambda_assign * loss
        return terms

    def refine(self, predictor: nn.Module, ctx: Context) -> nn.Module:
        """Return the method's predictor with the evidence of the places added to its scores."""
        if self.settings.prototype_weight == 0:
            return predictor
        places, place_of = self._places(ctx)
        used = places[: int(place_of.max()) + 1].detach() / self.settings.assign_temperature
        return _PlaceEvidence(predictor, used, place_of, self.settings.prototype_weight)

    def _places(self, ctx: Context) -> tuple[Tensor, Tensor]:
        """Return all places, (P, D), and the index of the place of each class seen, (C,)."""
        counts = [count for count in ctx.classes_per_task if count]
        regions = self._regions(ctx)
        key = (len(regions.vertices), *counts)
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = (key, *self._prepare(regions, counts))  # once a task, not at each step
        _, places, place_of = self._prepared
        if self.settings.prototypes == "trained":
            places = kernels.unit(_trained(ctx).weight[: len(place_of)])
        return places, place_of

    def _prepare(self, regions: Regions, counts: list[int]) -> tuple[Tensor, Tensor]:
        """Return the fixed places for tasks with these numbers of classes, and the index of that of each class."""
        vertices = regions.vertices
        if self.settings.prototypes == "task":
            tasks = torch.arange(len(counts)) % len(vertices)
            return vertices, tasks.repeat_interleave(torch.tensor(counts)).to(vertices.device)
        for task, count in enumerate(counts):
            if (task, count) not in self._inside:
                generator = torch.Generator().manual_seed(self._orientation + task)
                size = region(len(vertices), count, self.settings.margin, angle=regions.angle)
                vertex = vertices[task % len(vertices)]  # a task without a vertex of its own shares one
                self._inside[task, count] = class_places(vertex, count, size, generator=generator).to(
                    vertices
                )
        inside = [self._inside[key] for key in enumerate(counts)]
        every_class = torch.arange(sum(counts), device=vertices.device)
        return torch.cat([*inside, vertices[len(counts) :]]), every_class


def _trained(ctx: Context) -> Prototypes:
    places = ctx.modules["places"]
    assert isinstance(places, Prototypes)
    return places


class _PlaceEvidence(nn.Module):
    """Adds to the scores of a predictor the weighted log-probabilities of the places of the classes.

    The places are divided by the temperature, (P, D); `place_of` is the index of that of each class, (C,).
    """

    places: Tensor
    place_of: Tensor

    def __init__(self, predictor: nn.Module, places: Tensor, place_of: Tensor, weight: float) -> None:
        super().__init__()
        self.predictor = predictor
        self.weight = weight
        self.register_buffer("places", places)
        self.register_buffer("place_of", place_of)

    def forward(self, features: Tensor) -> Tensor:
        """Map raw features, (N, D), to scores, (N, C)."""
        scores: Tensor = self.predictor(features)
        evidence = (kernels.unit(features) @ self.places.T).log_softmax(dim=1)
        return scores + self.weight * evidence[:, self.place_of]
