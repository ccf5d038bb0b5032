"""GEM: a step raises the loss of no earlier task (Lopez-Paz and Ranzato, NeurIPS 2017)."""

import torch
from pydantic import Field
from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.losses.replay import cross_entropy
from gplasc.memory.quadratic import minimize_non_negative
from gplasc.methods.base import ClassifierMethod, remember_balanced
from gplasc.settings.types import Settings


class _Settings(Settings):
    """Settings of GEM."""

    margin: float = Field(0.5, ge=0, description="lower bound of the dual variables, in favor of the past")
    ridge: float = Field(1e-3, gt=0, description="added to the diagonal of the dual problem")
    memory_batch: int | None = Field(None, gt=0, description="rows of a past task's gradient; default: all")


class GEM(ClassifierMethod[_Settings]):
    """The memory is not trained on; the gradient of each past task is a constraint."""

    Settings = _Settings
    DEVIATIONS = (
        "the memory is class-balanced and random, as in the code of the published numbers; the paper keeps the last "
        "samples of each task",
        "the dual is solved by non-negative least squares, exactly, instead of a general solver for quadratic "
        "programs",
        "the past tasks' gradients are computed after the batch's, in that code before it: BatchNorm's running "
        "statistics see the same batches in another order",
    )

    def adjust_gradients(self, parts: dict[str, Part], ctx: Context) -> None:
        """Move the gradient as little as needed to satisfy every past task."""
        if not len(ctx.memory):
            return
        memory = Batch(ctx.memory["x"], ctx.memory["y"])
        tasks = ctx.task_of(memory.y)
        constraints = []
        for task in tasks.unique():
            rows = (tasks == task).nonzero().flatten()
            if self.settings.memory_batch is not None:
                order = torch.randperm(len(rows), generator=ctx.random["replay"])
                rows = rows[order[: self.settings.memory_batch]]
            part = ctx.part(memory[rows])
            constraints.append(ctx.gradient(cross_entropy(ctx.forward(part).logits, part.y)))
        margin, ridge = self.settings.margin, self.settings.ridge
        ctx.set_gradient(_satisfy(ctx.flat_gradient(), torch.stack(constraints), margin=margin, ridge=ridge))

    def end_task(self, ctx: Context) -> None:
        """Keep random samples, equally many of each class."""
        remember_balanced(ctx)


def _satisfy(gradient: Tensor, constraints: Tensor, *, margin: float, ridge: float) -> Tensor:
    """Return the gradient nearest to ``gradient`` whose inner product with no constraint is negative.

    gradient: (P,); constraints: G, (K, P). If all are satisfied already, the gradient is returned as it is. Otherwise
    ``g + G' v`` with v from the dual problem

        minimize v' (G G' + ridge I) v / 2 + (G g)' v   over v >= margin

    which in ``u = v - margin >= 0`` is a program with non-negative unknowns and linear part ``G g + P margin``. The
    constraints then hold up to ``ridge v``.
    """
    products = constraints @ gradient
    if bool((products >= 0).all()):
        return gradient
    count = len(constraints)
    matrix = (constraints @ constraints.T).double().cpu() + ridge * torch.eye(count, dtype=torch.float64)
    lowest = torch.full((count,), margin, dtype=torch.float64)
    dual = lowest + minimize_non_negative(matrix, -(products.double().cpu() + matrix @ lowest))
    return gradient + constraints.T @ dual.to(gradient)
