"""CCLIS: prototypes against importance-weighted samples, prototype-relation distillation (Li et al., AAAI 2024)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from gplasc.learning import Batch, Context, ModuleRate, Part, PoolKind
from gplasc.losses import kernels
from gplasc.memory.importance import class_probabilities, importance_scores
from gplasc.methods.base import (
    CONTRASTIVE_DEVIATIONS,
    ContrastiveMethod,
    ContrastiveSettings,
    remember_balanced,
)
from gplasc.models import Network, ProjectionHead, Prototypes


class _Settings(ContrastiveSettings):
    """Settings of CCLIS."""

    RETIRED: ClassVar[Mapping[str, Any]] = {"teacher_mode": "eval", "official_mask_bug": False}

    base_temperature: float | None = None
    student_temperature: float = Field(0.2, gt=0)
    teacher_temperature: float = Field(0.1, gt=0)
    distill_weight: float = Field(0.6, ge=0)
    prototype_lr: float = Field(0.01, gt=0)
    prototype_warmup_from: float = Field(0.001, ge=0, description="where the warm-up of prototype_lr starts")
    score_passes: int = Field(5, gt=0, description="augmented passes over the samples for their importances")


class CCLIS(ContrastiveMethod[_Settings]):
    """Old samples are reweighted as if the whole past were there; hard ones are remembered."""

    Settings = _Settings
    DEVIATIONS = (
        "negatives are reweighted if both classes are past; the official code takes class // 2 for the task, so that "
        "with other than two classes a task it reweights every negative",
        "a sample's own class does not enter its score; in the official code the last pass leaks with weight 1/5",
        "teacher_temperature=0.1 is that of the published command; the official default is 0.01",
        "prototypes are normalized at the beginning of a step alone, as in the official code: the scores and the "
        "previous model use them as the last step left them, not quite of unit length",
        "the last batch of an epoch is used even if it is smaller, also when importances are estimated",
        *CONTRASTIVE_DEVIATIONS,
    )
    views: ClassVar[int] = 1
    pool: ClassVar[PoolKind] = "split"
    teacher: Literal["train", "eval"] | None = "eval"

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Return a learnable unit vector for each class."""
        assert isinstance(network.projection, ProjectionHead)
        generator = ctx.random["weights.prototypes"]
        return {"prototypes": Prototypes(ctx.num_classes, network.projection.out, generator=generator)}

    def learning_rates(self) -> dict[str, ModuleRate]:
        """Return the prototypes' own learning rate and the start of its warm-up."""
        return {"prototypes": ModuleRate(self.settings.prototype_lr, self.settings.prototype_warmup_from)}

    def parts(self, batch: Batch, ctx: Context) -> dict[str, Part]:
        """Return one view, with each sample's probability of having been drawn inside its class."""
        counts = torch.bincount(ctx.task.train.y, minlength=len(ctx.seen)).double()
        drawn = 1.0 / counts[batch.y].clamp(min=1)
        assert batch.memory_rows is not None
        remembered = batch.memory_rows >= 0
        if remembered.any():
            drawn[remembered] = ctx.memory["probability"][batch.memory_rows[remembered]]
        importance = drawn * torch.bincount(batch.y)[batch.y]
        return super().parts(replace(batch, columns={"importance": importance}), ctx)

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the prototype contrast and, from the second task on, the prototype-relation distillation."""
        part, settings, past = parts["batch"], self.settings, ctx.task.classes.start
        z, y, importance = part.out.projection, part.y, part.columns["importance"]
        _prototypes(ctx.modules).normalize_()
        prototypes = _prototypes(ctx.modules).weight[: len(ctx.seen)]
        classes = torch.arange(len(prototypes), device=y.device).unsqueeze(1)
        # The pairs of prototype and sample that are reweighted: two different classes, both past.
        weighted = (classes != y) & (classes < past) & (y < past)
        contrast = kernels.prototype_contrast(z, y, prototypes, settings.temperature, importance, weighted)
        terms = {"contrast": contrast}
        if ctx.previous is not None:
            both = prototypes[:past], _prototypes(ctx.previous).weight[:past]
            temperatures = settings.student_temperature, settings.teacher_temperature
            relation = kernels.prototype_relation(z, part.previous.projection, both, *temperatures)
            terms["prd"] = settings.distill_weight * relation
        return terms

    def remember(self, ctx: Context) -> None:
        """Score all samples at hand and draw the memory by score, inside Co2L's quotas."""
        scores = torch.zeros(len(ctx.pool), dtype=torch.float64)
        with torch.no_grad():
            prototypes = _prototypes(ctx.modules).weight[: len(ctx.seen)].float()
            for _ in range(self.settings.score_passes):
                outs = ctx.embed(ctx.pool, "contrastive", generator=ctx.random["memory"])
                similarity = torch.cat([(out.projection.float() @ prototypes.T).cpu() for out in outs])
                scores += importance_scores(similarity, ctx.pool.y, self.settings.temperature)
        remember_balanced(ctx, probability=class_probabilities(scores, ctx.pool.y))


def _prototypes(modules: nn.ModuleDict) -> Prototypes:
    return cast(Prototypes, modules["prototypes"])
