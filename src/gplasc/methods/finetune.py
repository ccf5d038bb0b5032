"""Fine-tuning: cross-entropy on the current task, nothing remembered (lower bound)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gplasc.config import Settings
from gplasc.methods.base import Classifying, Part, cross_entropy
from gplasc.models import Outputs

if TYPE_CHECKING:
    from gplasc.learning.context import Context


class Finetune(Classifying[Settings]):
    """Plain SGD; what happens when nothing is done about forgetting."""

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy over all classes."""
        return {"ce": cross_entropy(outs[0].logits, parts[0].y)}
