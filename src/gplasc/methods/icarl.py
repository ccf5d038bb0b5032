"""iCaRL: binary distillation, herding, and the nearest mean of exemplars (Rebuffi et al., CVPR 2017)."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from gplasc.learning import Context, Part, PoolKind
from gplasc.memory.herding import herding_order
from gplasc.memory.per_task import equal_shares, surplus
from gplasc.methods.base import ClassifierMethod
from gplasc.settings.types import Settings


class _Settings(Settings):
    """Settings of iCaRL."""

    bce_over: Literal["seen", "all"] = Field(
        "seen", description="the outputs that the loss averages over: those of the classes seen, or all"
    )


class ICaRL(ClassifierMethod[_Settings]):
    """The classifier only shapes the features; classes are told apart by the means of what is remembered of them."""

    Settings = _Settings
    DEVIATIONS = (
        "bce_over='seen': the loss averages over the classes seen, as in the version of Mammoth whose list has the "
        "learning rates of the presets; its present code averages over all outputs ('all'), which divides the first "
        "gradients of five equal tasks by five, and names a learning rate of 2 for CIFAR-100",
        "exemplars are chosen and compared by features of unit length, and the mean of a class is taken over each "
        "exemplar and its mirror image (where images may be mirrored at all): as in the paper's own code",
        "the published DER, GCR and CCLIS tables quote an iCaRL that was later found to be faulty; a correct one is "
        "better than those rows",
        "the weight decay of 2e-5 is the gradient of Mammoth's 1e-5 times the squared weights",
        "a memory that is not a multiple of the classes seen is used up: the first classes keep one exemplar more",
        "a class of which nothing is remembered has the lowest possible score",
    )
    pool: ClassVar[PoolKind] = "mixed"
    teacher: Literal["train", "eval"] | None = "eval"

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the binary cross-entropy; the target of a class not yet seen is 0."""
        part = parts["batch"]
        previous = None if ctx.previous is None else part.previous.logits
        logits = part.out.logits
        if self.settings.bce_over == "seen":
            logits = logits[:, : len(ctx.seen)]
        return {"bce": _binary_distillation(logits, part.y, previous, ctx.task.classes.start)}

    def predictor(self, ctx: Context) -> nn.Module:
        """Return the nearest-mean classifier; `end_task` fills in the means, when the exemplars are chosen."""
        return _NearestMean(len(ctx.seen), ctx.network.feature_dim).to(ctx.device)

    def end_task(self, ctx: Context) -> None:
        """Drop the least representative exemplars of old classes, herd those of new ones, and take the means."""
        memory, train = ctx.memory, ctx.task.train
        shares = equal_shares(memory.capacity, len(ctx.seen))
        features = nn.functional.normalize(ctx.features(train), dim=1)
        herded = [torch.zeros(0, dtype=torch.long)]
        for label in ctx.task.classes:
            rows = (train.y == label).nonzero().flatten()
            herded.append(rows[herding_order(features[ctx.to_device(rows)], int(shares[label])).cpu()])
        new, ranks = train.take(torch.cat(herded)), [torch.arange(len(rows)) for rows in herded]
        dropped = surplus(memory["y"], shares, memory["rank"]) if len(memory) else herded[0]
        memory.exchange(dropped, {"x": new.x, "y": new.y, "rank": torch.cat(ranks)})
        if len(memory):
            assert isinstance(ctx.predictor, _NearestMean)
            ctx.predictor.means.copy_(ctx.class_means())


def _binary_distillation(logits: Tensor, y: Tensor, previous: Tensor | None, num_past: int) -> Tensor:
    """Return the mean binary cross-entropy of labels for new classes and of the previous model for past ones."""
    targets = F.one_hot(y, logits.shape[1]).float()
    if previous is not None:
        targets[:, :num_past] = previous.detach().float()[:, :num_past].sigmoid()
    errors = F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none")
    return errors.mean(1).mean()


class _NearestMean(nn.Module):
    """Scores by the cosine to each class's mean, (N, D) features to (N, C): its order is that of the distances."""

    means: Tensor
    """(C, D) rows of unit length, or 0 for a class of which nothing is known."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(classes, dim))

    def forward(self, features: Tensor) -> Tensor:
        """Return cosines; -1 for a class without a mean."""
        scores = nn.functional.normalize(features, dim=1) @ self.means.T
        return scores.masked_fill((self.means == 0).all(1), -1.0)
