"""Fine-tuning: cross-entropy on the current task, nothing remembered (lower bound)."""

from __future__ import annotations

from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.methods.base import ClassifierMethod, cross_entropy
from gplasc.settings.types import Settings


class Finetune(ClassifierMethod[Settings]):
    """Plain SGD; what happens when nothing is done about forgetting."""

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy over all classes."""
        return {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
