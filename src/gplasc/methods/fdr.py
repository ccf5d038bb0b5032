"""FDR: class probabilities are held as they were at the end of each task (Benjamin et al., ICLR 2019)."""

import torch
from pydantic import Field
from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.methods.base import ReplayMethod, ReplaySettings, remember_tasks


class _Settings(ReplaySettings):
    """Settings of FDR."""

    alpha: float = Field(1.0, ge=0, description="weight of the distance to the remembered probabilities")


class FDR(ReplayMethod[_Settings]):
    """Equal parts of the memory for all tasks, each with the outputs of the model that had just learned it."""

    Settings = _Settings
    DEVIATIONS = (
        "cross-entropy and distance are one sum and one step, as in the paper; the code of the published numbers takes "
        "two optimizer steps, first the one, then the other, and never multiplies by its alpha: alpha=1 comes closest",
        "each of t tasks keeps a t-th of the memory; in that code the divisor is one too small since its tasks are "
        "counted from 0, so the second task keeps as much as the first",
        "the remembered outputs are those of plain images in evaluation mode; in that code augmented ones",
    )
    minibatches = ("memory",)

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy of the batch and the distance to the remembered probabilities."""
        terms = super().loss(parts, ctx)
        if memory := parts.get("memory"):
            distance = _function_distance(memory.out.logits, memory.columns["logits"])
            terms["fdr"] = self.settings.alpha * distance
        return terms

    def after_step(self, batch: Batch, parts: dict[str, Part], ctx: Context) -> None:
        """Remember nothing while the task lasts."""

    def end_task(self, ctx: Context) -> None:
        """Shrink the earlier tasks to their share and draw that of the new one at random."""
        remember_tasks(
            ctx, lambda new: {"logits": torch.cat([out.logits.float().cpu() for out in ctx.embed(new)])}
        )


def _function_distance(logits: Tensor, stored: Tensor) -> Tensor:
    """Return the mean distance between class probabilities now and stored, over the classes that were there."""
    absent = stored.isnan()
    now = logits.float().masked_fill(absent, -torch.inf).softmax(1)
    difference = now - stored.detach().float().masked_fill(absent, -torch.inf).softmax(1)
    distance: Tensor = torch.linalg.vector_norm(difference, dim=1)
    return distance.mean()
