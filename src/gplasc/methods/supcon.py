"""SupCon: supervised contrastive fine-tuning on the task's samples and the memory (Khosla et al. 2020)."""

from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses import kernels
from gplasc.methods.base import CONTRASTIVE_DEVIATIONS, ContrastiveMethod, ContrastiveSettings


class SupCon(ContrastiveMethod[ContrastiveSettings]):
    """Symmetric SupCon: current and remembered samples are anchors alike."""

    LIKE = "supcon"
    Settings = ContrastiveSettings
    DEVIATIONS = CONTRASTIVE_DEVIATIONS

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the contrastive term over all rows."""
        out, y = parts["batch"].out, parts["batch"].y
        term = kernels.supcon(out.projection, y, self.settings.temperature, cosines=out.projection_gram)
        return {"supcon": self.scale * term}
