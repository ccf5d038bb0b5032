"""SupCon: supervised contrastive fine-tuning on the task's samples and the memory (Khosla et al. 2020)."""

from __future__ import annotations

from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses import kernels
from gplasc.methods.base import ContrastiveMethod, ContrastiveSettings
from gplasc.models import Outputs


class SupCon(ContrastiveMethod[ContrastiveSettings]):
    """Symmetric SupCon: current and remembered samples are anchors alike."""

    Settings = ContrastiveSettings

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return the contrastive term over all rows."""
        term = kernels.supcon(
            outs[0].projection, parts[0].y, self.settings.temperature, cosines=outs[0].projection_gram
        )
        return {"supcon": self.scale * term}
