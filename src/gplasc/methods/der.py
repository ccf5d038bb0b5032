"""DER: the logits of the past are held where they were (Buzzega et al., NeurIPS 2020)."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.losses.replay import logit_distance
from gplasc.methods.base import ReplayMethod, ReplaySettings, cross_entropy


class DERSettings(ReplaySettings):
    """Settings of DER."""

    alpha: float = Field(0.3, ge=0, description="weight of the distance to the remembered logits")


class DER(ReplayMethod[DERSettings]):
    """Beside each remembered image stands what the network said about it when it was first seen."""

    Settings = DERSettings
    DEVIATIONS = (
        "the logits are those of the augmented image before the step, and replay augments the image anew: as in the "
        "code of the published numbers, the paper is silent",
        "all logits are held, those of classes not seen yet too, as in the code of the published numbers",
    )

    def parts(self, batch: Batch, ctx: Context) -> dict[str, Part]:
        """Return the batch and, as a forward pass of its own, a minibatch of the memory."""
        return {**super().parts(batch, ctx), **self.replay(ctx, "memory")}

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy of the batch and the distance to the remembered logits."""
        terms = {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
        if "memory" in parts:
            memory = parts["memory"]
            terms["dark"] = self.settings.alpha * logit_distance(memory.out.logits, memory.columns["logits"])
        return terms

    def columns(self, parts: dict[str, Part]) -> dict[str, Tensor]:
        """Keep the logits of the batch."""
        return {"logits": parts["batch"].out.logits.detach().float()}
