"""GSS: replay from a memory of samples whose gradients differ (Aljundi et al., NeurIPS 2019)."""

import torch
from pydantic import Field
from torch import Tensor

from gplasc.learning import Batch, Context, Part
from gplasc.memory.gradient_diversity import diverse_slots, gradient_products, similarity_scores
from gplasc.methods.base import ReplayMethod, ReplaySettings

_FIRST_SCORE = 0.1  # of samples that come when there is nothing to compare them with


class _Settings(ReplaySettings):
    """Settings of GSS."""

    gradient_batch: int = Field(32, gt=0, description="remembered rows that new gradients are compared with")


class GSS(ReplayMethod[_Settings]):
    """The greedy variant: new samples challenge remembered ones that are alike to others."""

    Settings = _Settings
    DEVIATIONS = (
        "a batch may challenge the memory only if its mean gradient points away from the remembered ones, as in the "
        "code of the published numbers; in the paper each sample is judged alone",
        "the rows that one batch challenges are drawn together, without replacement, and not one after the other",
        "gradients of single samples are computed with BatchNorm's running statistics and on plain images, all at once "
        "instead of one backward pass a sample",
        "one step a batch; the published code can take several, and its published settings take one",
    )

    def after_step(self, batch: Batch, parts: dict[str, Part], ctx: Context) -> None:
        """Fill the memory; once it is full, let the batch challenge it."""
        memory = ctx.memory
        if memory.capacity == 0:
            return
        score, scores = self._scores(batch, ctx)
        memory.seen += len(batch.y)
        room = min(memory.capacity - len(memory), len(batch.y))
        if room:
            slots = torch.arange(len(memory), len(memory) + room)
            self._write(batch, torch.arange(room), slots, torch.full((room,), score), ctx)
        if room < len(batch.y) and score < 1:
            winners, slots = diverse_slots(memory["score"], scores[room:], ctx.random["memory"])
            self._write(batch, winners + room, slots, scores[winners + room], ctx)

    def _scores(self, batch: Batch, ctx: Context) -> tuple[float, Tensor]:
        """How alike the gradients of the batch and of its samples are to a few remembered ones, (b,)."""
        count = len(batch.y)
        if not len(ctx.memory):
            return _FIRST_SCORE, torch.full((count,), _FIRST_SCORE)
        rows = batch + ctx.draw(self.settings.gradient_batch, ctx.random["memory"])
        x, y = ctx.augment(rows.x, "plain"), ctx.to_device(rows.y)
        score, scores = similarity_scores(gradient_products(ctx.network, x, y).cpu(), count)
        return float(score), scores

    def _write(self, batch: Batch, rows: Tensor, slots: Tensor, scores: Tensor, ctx: Context) -> None:
        ctx.memory.write(slots, {"x": batch.x[rows], "y": batch.y[rows], "score": scores})
