"""Bases of the two families of methods: contrastive with a linear probe, and those that train a classifier."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gplasc.criterion.terms import PLACE_TEMPERATURE, WithPlaces
from gplasc.errors import UserError
from gplasc.learning import AugmentationKind, Batch, Context, Head, Method, Part, PoolKind
from gplasc.learning.contract import SettingsType
from gplasc.learning.probe import train_probe
from gplasc.losses.replay import cross_entropy
from gplasc.memory import reservoir
from gplasc.memory.balanced import balanced_update
from gplasc.memory.per_task import equal_shares, surplus
from gplasc.models import LinearClassifier
from gplasc.settings.types import Settings
from gplasc.streams import Samples

CONTRASTIVE_DEVIATIONS = (
    "train.warmup_target: at paper scale the first task's warm-up ends at the learning rate that the schedule of the "
    "later tasks, which have fewer epochs, has there, as in the official code; at the other scales, where the later "
    "tasks have hardly more epochs than the warm-up, at that of the task's own schedule",
    "the probe has outputs for the classes seen alone; in the official code also for those to come, whose rows are "
    "trained to be low",
)
"""What all contrastive methods declare."""
_STATISTICS_ROWS = 4096


class ContrastiveSettings(Settings):
    """Settings of the contrastive term."""

    temperature: float = Field(0.1, gt=0)
    base_temperature: float | None = Field(
        0.07, gt=0, description="the term is multiplied by temperature / base_temperature; none: by 1"
    )


ContrastiveType = TypeVar("ContrastiveType", bound=ContrastiveSettings)


class ContrastiveMethod(Method[ContrastiveType]):
    """Two views, a projection head, a class-balanced memory shuffled into the batches, and a linear probe."""

    LIKE = "co2l"
    views: ClassVar[int] = 2
    augmentation: AugmentationKind = "contrastive"
    pool: ClassVar[PoolKind] = "mixed"
    heads: frozenset[Head] = frozenset({"projection"})

    def __init__(self, settings: ContrastiveType) -> None:
        super().__init__(settings)
        base = settings.base_temperature
        self.scale = 1.0 if base is None else settings.temperature / base
        """The factor of the official code; it decides the weight of the other terms relative to SupCon."""

    def remember(self, ctx: Context) -> None:
        """Shrink the old classes to their quotas and fill the memory with the task just learned."""
        remember_balanced(ctx)

    def end_task(self, ctx: Context) -> None:
        """Update the memory, and the class means if they take part in the prediction."""
        self.remember(ctx)
        if isinstance(ctx.predictor, WithPlaces) and len(ctx.memory):
            ctx.predictor.places.copy_(ctx.class_means() / PLACE_TEMPERATURE)

    def predictor(self, ctx: Context) -> nn.Module:
        """Return a linear classifier of the encoder's features, with the class means of the memory if they are set."""
        dim, classes = ctx.network.feature_dim, len(ctx.seen)
        linear = LinearClassifier(dim, classes, generator=ctx.random["probe"])
        weight = ctx.probe.nearest_mean
        return (WithPlaces(linear, torch.zeros(classes, dim), weight) if weight else linear).to(ctx.device)

    def fit_predictor(self, predictor: nn.Module, ctx: Context) -> None:
        """Train it on the frozen encoder."""
        train_probe(predictor, ctx)


class ClassifierMethod(Method[SettingsType]):
    """One stage: a classifier is trained together with the encoder and predicts."""

    LIKE = "er"
    heads: frozenset[Head] = frozenset({"classifier"})

    def predictor(self, ctx: Context) -> nn.Module:
        """Return the classifier, restricted to the classes seen."""
        classifier = ctx.network.classifier
        assert classifier is not None
        return _SeenClasses(classifier, len(ctx.seen))

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the mean cross-entropy of the batch over all classes."""
        return {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}


class ReplaySettings(Settings):
    """Settings of the methods that forward a minibatch of the memory at every step."""

    memory_batch: int = Field(32, gt=0, description="rows that are drawn from the memory for one term")


ReplayType = TypeVar("ReplayType", bound=ReplaySettings)


class ReplayMethod(ClassifierMethod[ReplayType]):
    """The memory is a reservoir of the samples seen, and minibatches of it are forwarded with those of the task."""

    forwards_memory = True
    minibatches: ClassVar[tuple[str, ...]] = ()
    """Names of the parts that are minibatches of the memory; without any, one minibatch is added to the batch."""

    def grow(self, ctx: Context, num_classes: int) -> None:
        """Mark the logits of new classes as absent in what is remembered."""
        ctx.memory.widen("logits", num_classes)

    def draw(self, ctx: Context) -> Batch | None:
        """Draw a minibatch from the memory; None while it is empty."""
        if not len(ctx.memory):
            return None
        return ctx.draw(self.settings.memory_batch, ctx.random["replay"])

    def parts(self, batch: Batch, ctx: Context) -> dict[str, Part]:
        """Return the batch and its minibatches, each a forward pass of its own; or all as one part."""
        if self.minibatches:
            parts = super().parts(batch, ctx)
            drawn = ((name, self.draw(ctx)) for name in self.minibatches)
            return parts | {name: ctx.part(rows) for name, rows in drawn if rows is not None}
        rows = self.draw(ctx)
        return super().parts(batch if rows is None else batch + rows, ctx)

    def columns(self, parts: dict[str, Part]) -> dict[str, Tensor]:
        """Return what the memory keeps with image and label of each sample of the batch, (b, ...)."""
        return {}

    def after_step(self, batch: Batch, parts: dict[str, Part], ctx: Context) -> None:
        """Offer the batch, not augmented, to the reservoir."""
        rows = {"x": batch.x, "y": batch.y, **self.columns(parts)}
        reservoir.offer(ctx.memory, rows, ctx.random["memory"])


class FeatureStatistics(Method[SettingsType]):
    """Nothing is trained or remembered: the scores follow from sums over all samples, in any order of the tasks.

    The sums are those of the features of a fixed encoder, in float64 on the CPU.
    """

    LIKE = "ncm"
    trains: ClassVar[bool] = False
    unit: ClassVar[bool] = False
    """Whether features are normalized to unit length."""
    second: ClassVar[str] = "second"
    """The name in the state of the sum of second moments."""

    def __init__(self, settings: SettingsType) -> None:
        super().__init__(settings)
        self._sums = {
            "counts": torch.zeros(0, dtype=torch.float64),
            "sums": torch.zeros(0, 0, dtype=torch.float64),
            self.second: torch.zeros(0, dtype=torch.float64),
        }

    @property
    def counts(self) -> Tensor:
        """The number of samples of each class, (C,)."""
        return self._sums["counts"]

    def second_moment(self, features: Tensor) -> Tensor:
        """Return what is added up over the samples next to their features, (N, D) float64; default: nothing."""
        return features.new_zeros(())

    def scores(self, means: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights (C, D) and biases (C,), from the class means (C, D) and the sum of second moments."""
        raise UserError(f"{type(self).__name__} has no scores; override `scores`, see ncm")

    def state_dict(self) -> dict[str, Any]:
        """Return the sums."""
        return {name: value.clone() for name, value in self._sums.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the sums back."""
        self._sums = {name: state[name].clone() for name in self._sums}

    def predictor(self, ctx: Context) -> nn.Module:
        """Return linear scores of the features."""
        shape = len(ctx.seen), ctx.network.feature_dim
        return LinearScores(torch.zeros(shape), torch.zeros(shape[0]), unit=self.unit).to(ctx.device)

    def fit_predictor(self, predictor: nn.Module, ctx: Context) -> None:
        """Add the samples of the task to the sums and compute the weights of the scores."""
        assert isinstance(predictor, LinearScores)
        train = ctx.task.train
        for rows in torch.arange(len(train)).split(_STATISTICS_ROWS):
            part = train.take(rows)
            self.add(ctx.features(part).double().cpu(), part.y, len(ctx.seen))
        weight, bias = self.weights()
        predictor.weight.copy_(weight)
        predictor.bias.copy_(bias)

    def add(self, features: Tensor, y: Tensor, classes: int) -> None:
        """Add features (N, D) of classes (N,) to the sums; the last classes may be new."""
        if self.unit:
            features = nn.functional.normalize(features, dim=1)
        second, moment = self._sums[self.second], self.second_moment(features).double()
        added, dim = classes - len(self.counts), features.shape[1]
        counts = torch.cat([self.counts, torch.zeros(added, dtype=torch.float64)])
        sums = torch.cat([self._sums["sums"].reshape(-1, dim), torch.zeros(added, dim, dtype=torch.float64)])
        self._sums = {
            "counts": counts.index_add_(0, y, torch.ones(len(y), dtype=torch.float64)),
            "sums": sums.index_add_(0, y, features.double()),
            self.second: second + moment if second.numel() else moment,
        }

    def weights(self) -> tuple[Tensor, Tensor]:
        """Return weights (C, D) and biases (C,) of the scores."""
        return self.scores(
            self._sums["sums"] / self.counts.clamp(min=1).unsqueeze(1), self._sums[self.second]
        )


class LinearScores(nn.Module):
    """Scores that are linear in the features, (N, D) to (N, C), with weights that are computed, not trained."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, *, unit: bool) -> None:
        super().__init__()
        self.unit = unit
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", bias.float())

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores, of features of unit length if `unit`."""
        if self.unit:
            features = nn.functional.normalize(features, dim=1)
        return nn.functional.linear(features, self.weight, self.bias)


class _SeenClasses(nn.Module):
    """The first classes of a classifier that already has outputs for those to come."""

    def __init__(self, classifier: nn.Module, count: int) -> None:
        super().__init__()
        self.classifier = classifier
        self.count = count

    def forward(self, features: Tensor) -> Tensor:
        """Map (N, D) features to (N, count) scores."""
        scores: Tensor = self.classifier(features)
        return scores[:, : self.count]


def remember_balanced(ctx: Context, *, probability: Tensor | None = None) -> None:
    """Shrink old classes to Co2L's quotas and add the task; the memory keeps a ``probability`` of being drawn."""
    past, task = ctx.task.index, ctx.task.train
    weights = None if probability is None else probability.split([len(task), len(ctx.memory)])
    old, new = balanced_update(ctx.memory, task.y, past, ctx.random["memory"], weights)
    columns = {"probability": torch.cat([weights[1][old], weights[0][new]])} if weights else {}
    ctx.remember(old, new, **columns)


def remember_tasks(ctx: Context, columns: Callable[[Samples], dict[str, Tensor]] = lambda new: {}) -> None:
    """Shrink earlier tasks to equal shares and draw the new one's at random, with further ``columns``."""
    shares = equal_shares(ctx.memory.capacity, ctx.task.index + 1)
    drawn = torch.randperm(len(ctx.task.train), generator=ctx.random["memory"])[: int(shares[-1])]
    if len(drawn):  # otherwise there are fewer rows than tasks: the earlier ones keep theirs
        new = ctx.task.train.take(drawn)
        rows = {"x": new.x, "y": new.y, **columns(new)}
        ctx.memory.exchange(surplus(ctx.task_of(ctx.memory.labels), shares), rows)
