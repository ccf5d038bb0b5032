"""ER: experience replay from a reservoir (Riemer et al. 2019, Chaudhry et al. 2019)."""

from __future__ import annotations

from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.methods.base import ReplayMethod, ReplaySettings, cross_entropy


class ER(ReplayMethod[ReplaySettings]):
    """Current and remembered samples are one batch: one forward pass, one mean."""

    Settings = ReplaySettings
    DEVIATIONS = (
        "the reservoir is offered every sample in every epoch, as in the code of the published numbers: it may hold "
        "samples of the current task, and one sample twice",
    )

    def parts(self, batch: Batch, ctx: Context) -> dict[str, Part]:
        """Return batch and memory as one part."""
        return {"batch": self.together(batch, ctx)}

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the mean cross-entropy of all rows."""
        return {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
