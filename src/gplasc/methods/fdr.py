"""FDR: class probabilities are held as they were at the end of each task (Benjamin et al., ICLR 2019)."""

import torch
from pydantic import Field
from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.losses.replay import function_distance
from gplasc.memory.per_task import equal_shares, surplus
from gplasc.methods.base import ReplayMethod, ReplaySettings


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
        if "memory" in parts:
            memory = parts["memory"]
            terms["fdr"] = self.settings.alpha * function_distance(
                memory.out.logits, memory.columns["logits"]
            )
        return terms

    def after_step(self, batch: Batch, parts: dict[str, Part], ctx: Context) -> None:
        """Remember nothing while the task lasts."""

    def end_task(self, ctx: Context) -> None:
        """Shrink the earlier tasks to their share and draw that of the new one at random."""
        shares = equal_shares(ctx.memory.capacity, ctx.task.index + 1)
        drawn = torch.randperm(len(ctx.task.train), generator=ctx.random["memory"])[: int(shares[-1])]
        if not len(drawn):  # fewer rows than tasks: the earlier ones keep theirs
            return
        new = ctx.task.train.take(drawn)
        logits = torch.cat([out.logits.float().cpu() for out in ctx.embed(new)])
        dropped = surplus(ctx.task_of(ctx.memory["y"]), shares) if len(ctx.memory) else drawn[:0]
        ctx.memory.exchange(dropped, {"x": new.x, "y": new.y, "logits": logits})
