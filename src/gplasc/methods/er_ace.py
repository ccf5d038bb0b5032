"""ER-ACE: new classes compete among themselves, replay alone sets them against the past (Caccia et al., ICLR 2022)."""

from typing import ClassVar

import torch
from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses.replay import cross_entropy
from gplasc.methods.base import ReplayMethod, ReplaySettings


class ERACE(ReplayMethod[ReplaySettings]):
    """Asymmetric cross-entropy: the batch does not push the logits of past classes down."""

    Settings = ReplaySettings
    DEVIATIONS = (
        "the classifier is linear, as in Mammoth's other methods; the authors' has cosines times 10 and no bias",
        "a class of the task that is not in the batch is hidden too, from the task's first batch on; in Mammoth's code "
        "from the first batch on that has it",
        "the first task has nothing to hide and replays as er does; Mammoth replays from the second task on",
    )
    minibatches: ClassVar[tuple[str, ...]] = ("memory",)

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the batch's cross-entropy over its classes and those to come, and that of the memory over all."""
        batch = parts["batch"]
        hidden = torch.arange(batch.out.logits.shape[1], device=batch.y.device) < len(ctx.seen)
        hidden[batch.y] = False
        logits = batch.out.logits
        if ctx.task.index:
            logits = logits.masked_fill(hidden, torch.finfo(logits.dtype).min)
        terms = {"ce": cross_entropy(logits, batch.y)}
        if memory := parts.get("memory"):
            terms["replay"] = cross_entropy(memory.out.logits, memory.y)
        return terms
