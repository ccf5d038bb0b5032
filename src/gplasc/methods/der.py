"""DER: the logits of the past are held where they were (Buzzega et al., NeurIPS 2020)."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses.replay import logit_distance
from gplasc.methods.base import ReplayMethod, ReplaySettings
from gplasc.settings.types import Settings


class DERSettings(ReplaySettings):
    """Settings of DER."""

    alpha: float = Field(0.3, ge=0, description="weight of the distance to the remembered logits")


class DER(ReplayMethod[DERSettings]):
    """Stores logits with each remembered image."""

    Settings: ClassVar[type[Settings]] = DERSettings
    DEVIATIONS = (
        "the logits are those of the augmented image before the step, and replay augments the image anew: as in the "
        "code of the published numbers, the paper is silent",
        "all logits are held, those of classes not seen yet too, as in the code of the published numbers",
    )
    minibatches: ClassVar[tuple[str, ...]] = ("logits",)

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy of the batch and the distance to the remembered logits."""
        terms = super().loss(parts, ctx)
        if memory := parts.get("logits"):
            terms["dark"] = self.settings.alpha * logit_distance(memory.out.logits, memory.columns["logits"])
        return terms

    def columns(self, parts: dict[str, Part]) -> dict[str, Tensor]:
        """Keep the logits of the batch."""
        return {"logits": parts["batch"].out.logits.detach().float()}
