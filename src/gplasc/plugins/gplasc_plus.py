"""GPLASC+: the prepared places on the sphere as a fixed classifier of current and remembered samples."""

from collections.abc import Mapping
from typing import ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from gplasc.criterion.terms import PLACE_TEMPERATURE, PLACE_WEIGHT, WithPlaces
from gplasc.learning import Batch, Context, Part
from gplasc.losses import kernels
from gplasc.models import Network, Prototypes
from gplasc.plugins.gplasc import GPLASCPlugin, GPLASCSettings


class _Settings(GPLASCSettings):
    """Settings of the plug-in: those of GPLASC with range, position and its own SupCon off, and the assignment."""

    RENAMED: ClassVar[Mapping[str, str]] = {"prototypes": "places", "prototype_weight": "evidence"}

    margin: float = Field(0.5, ge=0, lt=1)
    lambda_range: float = Field(0.0, ge=0)
    lambda_position: float = Field(0.0, ge=0)
    lambda_contrast: float = Field(0.0, ge=0, description="of SupCon, with a method without contrastive term")
    memory_batch: int = Field(32, gt=0, description="most rows of the minibatch of past samples")
    exposures: float = Field(
        200.0,
        gt=0,
        description="how often the minibatches of a task show a past sample: long training has small ones",
    )
    prototypes: Literal["class", "trained"] = Field(
        "class",
        description="what a class is assigned to: its place inside the task's region, or a place that is trained like "
        "a weight (a control: nothing is prepared)",
    )
    lambda_assign: float = Field(1.0, ge=0, description="weight of the cross-entropy against the places")
    assign_temperature: float = Field(PLACE_TEMPERATURE, gt=0)
    prototype_weight: float = Field(
        PLACE_WEIGHT,
        ge=0,
        description="weight, at prediction, of the log-probability of a place; 0 leaves the predictor alone",
    )


class GPLASCPlus(GPLASCPlugin):
    """Adds an assignment of all rows to prepared places, and the distillation of GPLASC.

    A task has a vertex of the frame; its classes have places around it, see `gplasc.geometry.class_places`. The
    assignment is a balanced softmax of unit features over the places of all classes seen and the vertices of the tasks
    to come, which stay free, see `gplasc.losses.assignment_loss`. At prediction, the log-probability of a class's place
    is added to its score.
    """

    LIKE = "gplasc-plus"
    Settings = _Settings
    DEVIATIONS = (
        "not in the paper: range and position are replaced by a cross-entropy against fixed places, in which the "
        "remembered samples take part; both can be switched on too",
        "the classes of a task have fixed places too, where the optimum of the theorem puts them; the paper prepares "
        "the centers of the tasks alone",
        "prototype_weight: at prediction the log-probability of a class's place is added to the score of the method's "
        "predictor; the paper predicts with the predictor alone",
    )
    settings: _Settings

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Prepare the regions."""
        modules = super().modules(ctx, network)
        if self.settings.prototypes == "trained":
            generator = ctx.random["weights.places"]
            modules["places"] = Prototypes(ctx.num_classes, network.feature_dim, generator=generator)
        return modules

    def minibatch_rows(self, batch: Batch, ctx: Context) -> int:
        """Return the share of this batch in the exposures of all past samples, at most `memory_batch` rows."""
        exposures = self.settings.exposures * len(ctx.memory)
        share = len(batch.y) / (len(ctx.pool) * max(ctx.epochs, 1))
        return max(1, min(self.settings.memory_batch, round(exposures * share)))

    def loss(self, method_parts: dict[str, Part], parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the terms of GPLASC and the assignment of all rows."""
        terms = super().loss(method_parts, parts, ctx)
        if self.settings.lambda_assign > 0:
            everything = [*method_parts.values(), *parts.values()]
            rows = torch.cat([part.out.features for part in everything])
            labels = torch.cat([part.y for part in everything])
            temperature = self.settings.assign_temperature
            loss = kernels.assignment(kernels.unit(rows), labels, self._places(ctx), temperature)
            terms["assign"] = self.settings.lambda_assign * loss
        return terms

    def refine(self, predictor: nn.Module, ctx: Context) -> nn.Module:
        """Return the method's predictor with the log-probabilities of the places added to its scores."""
        if self.settings.prototype_weight == 0:
            return predictor
        places = self._places(ctx)[: len(ctx.seen)].detach() / self.settings.assign_temperature
        return WithPlaces(predictor, places, self.settings.prototype_weight)

    def _places(self, ctx: Context) -> Tensor:
        """Return the places of the classes seen, and the vertices of the tasks to come, (P, D)."""
        if self.settings.prototypes == "trained":
            return kernels.unit(cast(Prototypes, ctx.modules["places"]).weight[: len(ctx.seen)])
        return self._regions(ctx).places([count for count in ctx.classes_per_task if count])
