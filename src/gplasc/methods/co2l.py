"""Co2L: asymmetric SupCon and instance-relation distillation (Cha et al., ICCV 2021)."""

import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.losses import kernels
from gplasc.methods.base import CONTRASTIVE_DEVIATIONS, ContrastiveMethod, ContrastiveSettings
from gplasc.settings.types import Settings


class Co2LSettings(ContrastiveSettings):
    """Settings of Co2L; the defaults are those of the official code."""

    RETIRED: ClassVar[Mapping[str, Any]] = {"teacher_mode": "train", "divisor": "rows"}

    student_temperature: float = Field(0.2, gt=0)
    teacher_temperature: float = Field(0.01, gt=0)
    distill_weight: float = Field(1.0, ge=0)
    memory_batch: int = Field(
        0,
        ge=0,
        exclude_if=operator.not_,
        description="remembered images that each batch has in addition to those shuffled into it; not published",
    )


class Co2L(ContrastiveMethod[Co2LSettings]):
    """Only samples of the current task are anchors; relations between all samples are held as they were."""

    Settings: ClassVar[type[Settings]] = Co2LSettings
    DEVIATIONS: ClassVar[tuple[str, ...]] = (
        "the previous model normalizes with batch statistics, as in the official code, where this "
        "follows from the place of a deepcopy; the paper is silent",
        "the asymmetric term is divided by all rows, as in the official code; the paper's formula is a sum over the "
        "current anchors",
        "base_temperature=0.07: the contrastive term is multiplied by temperature / 0.07, as in the official code",
        "the row maximum in the distillation is handled by log-softmax, not by the official explicit quotient: "
        "equal up to rounding",
        "the last probe epoch is reported, never the best one on the test split",
        *CONTRASTIVE_DEVIATIONS,
    )
    teacher: Literal["train", "eval"] | None = "train"

    def parts(self, batch: Batch, ctx: Context) -> dict[str, Part]:
        """Return two views of the batch, and of further remembered images if they are set, as one part."""
        count = self.settings.memory_batch
        if count and len(ctx.memory):
            batch = batch + ctx.draw(count, ctx.random["replay"])
        return {"batch": ctx.part(batch, views=self.views)}

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return SupCon with the current task's rows as anchors and, from the second task on, the distillation."""
        part, settings = parts["batch"], self.settings
        z, y, cosines = part.out.projection, part.y, part.out.projection_gram
        anchors = y >= ctx.first_anchor
        contrast = kernels.supcon(z, y, settings.temperature, anchors=anchors, over="rows", cosines=cosines)
        terms = {"supcon": self.scale * contrast}
        if ctx.previous is not None:
            old, before = part.previous.projection, part.previous.projection_gram
            temperatures = settings.student_temperature, settings.teacher_temperature
            relation = kernels.relation(z, old, *temperatures, cosines=cosines, teacher_cosines=before)
            terms["ird"] = self.distillation_weight(ctx) * relation
        return terms

    def distillation_weight(self, ctx: Context) -> float:
        """Return the weight of the distillation in this task."""
        return self.settings.distill_weight
