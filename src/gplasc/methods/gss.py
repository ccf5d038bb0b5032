"""GSS: replay from a memory of samples whose gradients differ (Aljundi et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor

from gplasc.memory.gradient_diversity import (
    batch_gradient,
    diverse_slots,
    sample_gradients,
    similarity_scores,
)
from gplasc.methods.base import Batch, Part, Replay, ReplaySettings, cross_entropy
from gplasc.models import Outputs

if TYPE_CHECKING:
    from gplasc.learning.context import Context

_FIRST_SCORE = 0.1  # of samples that come when there is nothing to compare them with


class GSSSettings(ReplaySettings):
    """Settings of GSS."""

    gradient_batch: int = Field(
        32, gt=0, description="rows of the memory that new gradients are compared with"
    )


class GSS(Replay[GSSSettings]):
    """The greedy variant: new samples challenge remembered ones that are alike to others."""

    Settings = GSSSettings
    DEVIATIONS = (
        "a batch may challenge the memory only if its mean gradient points away from the remembered ones, as in the "
        "code of the published numbers; in the paper each sample is judged alone",
        "the rows that one batch challenges are drawn together, without replacement, and not one after the other",
        "gradients of single samples are computed with BatchNorm's running statistics and on plain images, all at once "
        "(torch.func) instead of one backward pass a sample",
        "one step a batch; the published code can take several, and its published settings take one",
    )

    def parts(self, batch: Batch, ctx: Context) -> list[Part]:
        """Return batch and memory as one part."""
        return self.together(batch, ctx)

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return the mean cross-entropy of all rows."""
        return {"ce": cross_entropy(outs[0].logits, parts[0].y)}

    def after_step(self, batch: Batch, parts: list[Part], outs: list[Outputs], ctx: Context) -> None:
        """Fill the memory; once it is full, let the batch challenge it."""
        memory = ctx.memory
        if memory.capacity == 0:
            return
        x, y = ctx.augment(batch.x, "plain"), ctx.to_device(batch.y)
        references = self._references(ctx)
        score = _FIRST_SCORE
        if len(references):
            mean = batch_gradient(ctx.network, x, y).unsqueeze(0)
            score = float(similarity_scores(mean, references))
        memory.seen += len(y)
        room = min(memory.capacity - len(memory), len(y))
        if room:
            slots = torch.arange(len(memory), len(memory) + room)
            self._write(batch, torch.arange(room), slots, torch.full((room,), score), ctx)
        if room < len(y) and len(references) and score < 1:
            gradients = sample_gradients(ctx.network, x[room:], y[room:])
            scores = similarity_scores(gradients, references).cpu()
            winners, slots = diverse_slots(memory["score"], scores, ctx.random["memory"])
            self._write(batch, winners + room, slots, scores[winners], ctx)

    def _references(self, ctx: Context) -> Tensor:
        """The gradients of a few remembered samples, (K, P)."""
        if not len(ctx.memory):
            return torch.zeros(0, 0)
        drawn, _ = ctx.memory_batch(self.settings.gradient_batch, ctx.random["memory"])
        return sample_gradients(ctx.network, ctx.augment(drawn.x, "plain"), ctx.to_device(drawn.y))

    def _write(self, batch: Batch, rows: Tensor, slots: Tensor, scores: Tensor, ctx: Context) -> None:
        ctx.memory.write(slots, {"x": batch.x[rows], "y": batch.y[rows], "score": scores})
