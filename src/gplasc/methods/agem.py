"""A-GEM: a step never goes against the mean gradient of the past (Chaudhry et al., ICLR 2019)."""

import torch
from pydantic import Field
from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.losses.replay import cross_entropy
from gplasc.methods.base import ClassifierMethod, remember_tasks
from gplasc.settings.types import Settings


class _Settings(Settings):
    """Settings of A-GEM."""

    memory_batch: int = Field(32, gt=0, description="rows of the memory whose gradient is the reference")


class AGEM(ClassifierMethod[_Settings]):
    """The memory is not trained on; it only says which directions are forbidden."""

    Settings = _Settings
    DEVIATIONS = (
        "each of t tasks keeps a t-th of the memory, drawn at random; later versions of the code of the published "
        "numbers keep one training batch a task, whatever the size of the memory",
        "the reference gradient is computed in training mode after the batch's, so BatchNorm's running statistics see "
        "the memory too, as in that code",
    )

    def adjust_gradients(self, parts: dict[str, Part], ctx: Context) -> None:
        """Take away what goes against the gradient of a minibatch of the memory."""
        if not len(ctx.memory):
            return
        part = ctx.part(ctx.draw(self.settings.memory_batch, ctx.random["replay"]))
        reference = ctx.gradient(cross_entropy(ctx.forward(part).logits, part.y))
        ctx.set_gradient(_project(ctx.flat_gradient(), reference))

    def end_task(self, ctx: Context) -> None:
        """Shrink the earlier tasks to their share and draw that of the new one at random."""
        remember_tasks(ctx)


def _project(gradient: Tensor, reference: Tensor) -> Tensor:
    """Return ``g - min(<g, r>, 0) / <r, r> r``, the nearest gradient that does not go against the reference r."""
    against = torch.dot(gradient, reference).clamp(max=0)
    length = torch.dot(reference, reference)
    return gradient - torch.where(length > 0, against / length.clamp(min=1e-30), 0.0) * reference
