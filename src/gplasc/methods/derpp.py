"""DER++: DER with the labels of the past as well (Buzzega et al., NeurIPS 2020)."""

from pydantic import Field
from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses.replay import cross_entropy
from gplasc.methods.der import DER, DERSettings


class _Settings(DERSettings):
    """Settings of DER++."""

    alpha: float = Field(0.1, ge=0, description="weight of the distance to the remembered logits")
    beta: float = Field(0.5, ge=0, description="weight of the cross-entropy of remembered labels")


class DERPP(DER):
    """Logits and labels are replayed from two independent minibatches of one reservoir."""

    Settings = _Settings
    minibatches = ("logits", "labels")
    settings: _Settings

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the terms of DER, and the cross-entropy of the labels in the memory."""
        terms = super().loss(parts, ctx)
        if labels := parts.get("labels"):
            terms["replay"] = self.settings.beta * cross_entropy(labels.out.logits, labels.y)
        return terms
