"""GCR: DER++ on a weighted coreset chosen by gradient matching (Tiwari et al., CVPR 2022)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from gplasc.learning import Batch, Context, Part
from gplasc.losses.replay import cross_entropy, logit_distance
from gplasc.memory import Buffer, reservoir
from gplasc.memory.coreset import select_coreset
from gplasc.memory.per_task import equal_shares
from gplasc.methods.base import ReplayMethod, ReplaySettings
from gplasc.streams import Samples

Rows = dict[str, Tensor]


class _Settings(ReplaySettings):
    """Settings of GCR."""

    RETIRED: ClassVar[Mapping[str, Any]] = {"selection": "gradient", "weights": "fitted"}

    alpha: float = Field(0.1, ge=0, description="weight of the distance to the remembered logits")
    beta: float = Field(0.5, ge=0, description="weight of the cross-entropy of remembered labels")
    candidates: int = Field(1000, gt=0, description="samples of the task that its coreset is chosen from")
    ridge: float = Field(0.5, ge=0, description="spreads the weights; relative to the mean squared gradient")


class GCR(ReplayMethod[_Settings]):
    """Equal parts of the memory for all tasks; keeps a weighted coreset per task."""

    Settings = _Settings
    DEVIATIONS = (
        "written from the paper's mathematics: the published code does not run",
        "candidates are held in addition to the memory while their task lasts, as in the paper; of past tasks the "
        "memory holds all there is",
        "class budgets add up to the task's, so that there is no surplus; the published rule for a surplus keeps the "
        "smallest weights",
        "a coreset is chosen anew only when its task's share of the memory shrinks",
        "ridge is relative to the gradients' size; in the published code it is 0.5 on a GPU and 0 on a CPU",
        "without the supervised contrastive term, which is 0 in the rows named GCR",
        "a coreset's weights add up to about the number of its candidates, as published, which themselves have weight "
        "1, so that replay favors past tasks",
    )
    minibatches = ("logits", "labels")

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._candidates = Buffer(settings.candidates)

    def state_dict(self) -> dict[str, Any]:
        """Return the candidates of the task under way."""
        return {"candidates": self._candidates.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the candidates back."""
        self._candidates.load_state_dict(state["candidates"])

    def draw(self, ctx: Context) -> Batch | None:
        """Draw from the coreset and, in proportion to the place they will have, from the candidates."""
        generator, place = ctx.random["replay"], -(-ctx.memory.capacity // (ctx.task.index + 1))
        current = min(len(self._candidates), place)
        if not current:
            return super().draw(ctx)
        total = current + len(ctx.memory)
        count = min(self.settings.memory_batch, total)
        share = count * current // total
        index = torch.randperm(len(self._candidates), generator=generator)[:share]
        batch = Batch.of(self._candidates.rows(index))
        return batch + ctx.draw(count - share, generator) if len(ctx.memory) else batch

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy of the batch, and weighted distance and cross-entropy of the memory."""
        terms = super().loss(parts, ctx)
        if "logits" in parts:
            logits, labels = parts["logits"], parts["labels"]
            dark = logit_distance(logits.out.logits, logits.columns["logits"], logits.columns["weight"])
            again = cross_entropy(labels.out.logits, labels.y, labels.columns["weight"])
            terms |= {"dark": self.settings.alpha * dark, "replay": self.settings.beta * again}
        return terms

    def after_step(self, batch: Batch, parts: dict[str, Part], ctx: Context) -> None:
        """Offer samples to the candidates; if there is more than one epoch, only correctly classified ones."""
        part = parts["batch"]
        logits = part.out.logits.detach().float()
        rows = {"x": batch.x, "y": batch.y, "logits": logits.cpu(), "weight": torch.ones(len(batch.y))}
        if ctx.epochs > 1:
            right = (logits.argmax(1) == part.y).cpu()
            rows = {name: value[right] for name, value in rows.items()}
        reservoir.offer(self._candidates, rows, ctx.random["memory"])

    def end_task(self, ctx: Context) -> None:
        """Shrink each earlier task's coreset to its share and choose that of the new one."""
        memory = ctx.memory
        *shares, share = equal_shares(memory.capacity, ctx.task.index + 1).tolist()
        tasks, dropped = ctx.task_of(memory.labels), torch.ones(len(memory), dtype=torch.bool)
        for task in tasks.unique().tolist():
            rows = (tasks == task).nonzero().flatten()
            kept, weights = self._select(ctx, memory.rows(rows), shares[task])
            memory["weight"][rows[kept]] = weights
            dropped[rows[kept]] = False
        new = self._all_candidates(ctx, share)
        index, weights = self._select(ctx, new, share)
        added = {name: value[index] for name, value in new.items()} | {"weight": weights}
        memory.exchange(dropped.nonzero().flatten(), added)
        self._candidates = Buffer(self.settings.candidates)

    def _select(self, ctx: Context, rows: Rows, budget: int) -> tuple[Tensor, Tensor]:
        """Choose a coreset by the gradients that the replay terms have at the present model; also its weights."""
        if len(rows["y"]) <= budget:
            return torch.arange(len(rows["y"])), rows["weight"]
        logits, features = _outputs(ctx, rows)
        errors = self.settings.beta * (logits.softmax(1) - F.one_hot(rows["y"], logits.shape[1]))
        # Of classes that came later nothing is remembered: the distance is a mean over the others.
        present = ~rows["logits"].isnan()
        distance = (logits - rows["logits"]).nan_to_num(nan=0.0) / present.sum(1, keepdim=True)
        errors += self.settings.alpha * 2 * distance
        ridge, generator, y, weights = self.settings.ridge, ctx.random["memory"], rows["y"], rows["weight"]
        return select_coreset(errors, features, y, weights, budget, ridge=ridge, generator=generator)

    def _all_candidates(self, ctx: Context, needed: int) -> Rows:
        """Return the candidates and, if they are fewer than needed, random samples of the task."""
        rows = self._candidates.rows()
        short = needed - len(self._candidates)
        if short > 0 or not rows:
            order = torch.randperm(len(ctx.task.train), generator=ctx.random["memory"])
            new = ctx.task.train.take(order[: max(short, 1)])
            more = {"x": new.x, "y": new.y, "weight": torch.ones(len(new))}
            more["logits"] = _outputs(ctx, more)[0]
            rows = {name: torch.cat([rows[name], value]) for name, value in more.items()} if rows else more
        return rows


def _outputs(ctx: Context, rows: Rows) -> tuple[Tensor, Tensor]:
    """Logits and raw features of plain images in evaluation mode, on the CPU."""
    outs = list(ctx.embed(Samples(rows["x"], rows["y"])))
    logits = torch.cat([out.logits.float().cpu() for out in outs])
    return logits, torch.cat([out.features.float().cpu() for out in outs])
