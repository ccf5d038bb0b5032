"""DER++: DER with the labels of the past as well (Buzzega et al., NeurIPS 2020)."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses.replay import logit_distance
from gplasc.methods.base import ReplayMethod, ReplaySettings, cross_entropy


class _Settings(ReplaySettings):
    """Settings of DER++."""

    alpha: float = Field(0.1, ge=0, description="weight of the distance to the remembered logits")
    beta: float = Field(0.5, ge=0, description="weight of the cross-entropy of remembered labels")


class DERPP(ReplayMethod[_Settings]):
    """Logits and labels are replayed from two independent minibatches of one reservoir."""

    Settings = _Settings
    DEVIATIONS = (
        "the logits are those of the augmented image before the step, and replay augments the image anew: as in the "
        "code of the published numbers, the paper is silent",
        "all logits are held, those of classes not seen yet too, as in the code of the published numbers",
    )
    minibatches = ("logits", "labels")

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy of the batch, and distance and cross-entropy of the memory."""
        terms = super().loss(parts, ctx)
        if "logits" in parts:
            dark, labels = parts["logits"], parts["labels"]
            terms["dark"] = self.settings.alpha * logit_distance(dark.out.logits, dark.columns["logits"])
            terms["replay"] = self.settings.beta * cross_entropy(labels.out.logits, labels.y)
        return terms

    def columns(self, parts: dict[str, Part]) -> dict[str, Tensor]:
        """Keep the logits of the batch."""
        return {"logits": parts["batch"].out.logits.detach().float()}
