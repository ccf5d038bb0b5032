"""What a method is: it says what is forwarded, which terms are minimized, what is remembered and who predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gplasc.config import Settings
from gplasc.learning.probe import train_probe
from gplasc.memory import reservoir
from gplasc.memory.balanced import balanced_update, random_choice
from gplasc.models import Network, Outputs

if TYPE_CHECKING:
    from gplasc.learning.context import Context

SettingsType = TypeVar("SettingsType", bound=Settings)
Head = Literal["projection", "classifier"]
Augment = Literal["contrastive", "replay", "plain"]
PoolKind = Literal["current", "mixed", "split", "everything"]


@dataclass
class Batch:
    """Samples as they come from the pool: b images, not yet augmented, on the CPU."""

    x: Tensor
    """(b, C, H, W) uint8."""
    y: Tensor
    """(b,) integer labels."""
    memory_rows: Tensor
    """(b,) the row in the memory that a sample comes from; -1 for a sample of the current task."""


@dataclass
class Part:
    """Samples forwarded together: one Part = one forward pass = one BatchNorm batch."""

    x: Tensor
    """(N, C, H, W) augmented images on the device, view after view."""
    y: Tensor
    """(N,) labels on the device."""
    current: Tensor
    """Rows whose label belongs to the current task. A memory may hold such rows too, so the label decides."""
    past: Tensor
    """Rows whose label belongs to an earlier task."""
    views: int = 1
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Columns the memory keeps beside image and label."""


class Component(Generic[SettingsType]):
    """What methods and plug-ins share: typed settings, trainable modules of their own, and state."""

    Settings: ClassVar[type[Settings]] = Settings
    DEVIATIONS: ClassVar[tuple[str, ...]] = ()
    """Where this implementation departs from its paper or official code, one sentence each."""

    def __init__(self, settings: SettingsType) -> None:
        self.settings = settings

    @property
    def heads(self) -> frozenset[Head]:
        """The heads the network must have."""
        return frozenset()

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Return further trainable modules by name, built once before the first task."""
        return {}

    def learning_rates(self) -> dict[str, float]:
        """Return learning rates of those modules that do not follow the network's."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive a restart beyond modules and memory: tensors and plain containers."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` returned."""

    def begin_task(self, ctx: Context) -> None:
        """Prepare for ``ctx.task``; not called again when a run resumes inside the task."""


class Method(Component[SettingsType]):
    """A continual-learning method; it overrides two to four of the hooks below."""

    views: ClassVar[int] = 1
    augmentation: ClassVar[Augment] = "replay"
    pool: ClassVar[PoolKind] = "current"
    """What batches are drawn from: the task's samples alone, shuffled with the memory (mixed), with a fixed share of
    each batch from the memory (split), or all tasks seen so far (everything)."""

    @property
    def forwards_memory(self) -> bool:
        """Whether remembered samples are among those the method forwards."""
        return self.pool in ("mixed", "split")

    @property
    def teacher(self) -> Literal["train", "eval"] | None:
        """The mode in which the previous model is run, or None if the method does not need it."""
        return None

    def parts(self, batch: Batch, ctx: Context) -> list[Part]:
        """Return what is forwarded for this batch."""
        return [ctx.part(batch.x, batch.y, views=self.views, augmentation=self.augmentation)]

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return the named terms that are minimized; ``outs`` belong to ``parts``."""
        raise NotImplementedError

    def adjust_gradients(self, ctx: Context) -> None:
        """Change the gradients between backward and the optimizer's step (GEM)."""

    def after_step(self, batch: Batch, parts: list[Part], outs: list[Outputs], ctx: Context) -> None:
        """Act after the optimizer's step, for instance fill a reservoir."""

    def end_task(self, ctx: Context) -> None:
        """Act after the task's last step; the predictor of this task exists already."""

    def predictor(self, ctx: Context) -> nn.Module:
        """Return what maps raw features, (N, D), to class scores, (N, C seen so far).

        It is asked for before `end_task`, so a probe is trained with the memory of this task's training, and used
        after it.
        """
        raise NotImplementedError


class ContrastiveSettings(Settings):
    """Settings of the contrastive term."""

    temperature: float = Field(0.1, gt=0)
    base_temperature: float | None = Field(
        0.07, gt=0, description="the term is multiplied by temperature / base_temperature; none: by 1"
    )


ContrastiveType = TypeVar("ContrastiveType", bound=ContrastiveSettings)


class Contrastive(Method[ContrastiveType]):
    """Two views, a projection head, a class-balanced memory shuffled into the batches, and a linear probe."""

    views: ClassVar[int] = 2
    augmentation: ClassVar[Augment] = "contrastive"
    pool: ClassVar[PoolKind] = "mixed"

    @property
    def heads(self) -> frozenset[Head]:
        """The projection head alone: the classifier is trained afterwards."""
        return frozenset({"projection"})

    @property
    def scale(self) -> float:
        """The factor of the official code; it decides the weight of every term that stands beside SupCon."""
        base = self.settings.base_temperature
        return 1.0 if base is None else self.settings.temperature / base

    def end_task(self, ctx: Context) -> None:
        """Shrink the old classes to their quotas and fill the memory with the task just learned."""
        remember_balanced(ctx)

    def predictor(self, ctx: Context) -> nn.Module:
        """Train a linear classifier on the frozen encoder."""
        return train_probe(ctx)


class Classifying(Method[SettingsType]):
    """One stage: a classifier is trained together with the encoder and predicts."""

    @property
    def heads(self) -> frozenset[Head]:
        """The classifier."""
        return frozenset({"classifier"})

    def predictor(self, ctx: Context) -> nn.Module:
        """Return the classifier, restricted to the classes seen."""
        classifier = ctx.network.classifier
        assert classifier is not None
        return SeenClasses(classifier, len(ctx.seen))


class ReplaySettings(Settings):
    """Settings of the methods that forward a minibatch of the memory at every step."""

    memory_batch: int = Field(32, gt=0, description="rows that are drawn from the memory for one term")


ReplayType = TypeVar("ReplayType", bound=ReplaySettings)


class Replay(Classifying[ReplayType]):
    """The memory is a reservoir of the samples seen, and minibatches of it stand beside those of the task."""

    @property
    def forwards_memory(self) -> bool:
        """True: whatever the minibatches come from, the memory is forwarded too."""
        return True

    def replay(self, ctx: Context) -> list[Part]:
        """Draw a minibatch from the memory, augmented anew, with all it keeps; no part while it is empty."""
        if not len(ctx.memory):
            return []
        drawn, columns = ctx.memory_batch(self.settings.memory_batch, ctx.random["replay"])
        return [ctx.part(drawn.x, drawn.y, augmentation=self.augmentation, extra=columns)]

    def together(self, batch: Batch, ctx: Context) -> list[Part]:
        """Return the batch with a minibatch of the memory behind it, as one part."""
        x, y = batch.x, batch.y
        if len(ctx.memory):
            drawn, _ = ctx.memory_batch(self.settings.memory_batch, ctx.random["replay"])
            x, y = torch.cat([x, drawn.x]), torch.cat([y, drawn.y])
        return [ctx.part(x, y, augmentation=self.augmentation)]

    def columns(self, parts: list[Part], outs: list[Outputs]) -> dict[str, Tensor]:
        """Return what is to be kept beside image and label for each sample of the batch, (b, ...)."""
        return {}

    def after_step(self, batch: Batch, parts: list[Part], outs: list[Outputs], ctx: Context) -> None:
        """Offer the batch, not augmented, to the reservoir."""
        rows = {"x": batch.x, "y": batch.y, **self.columns(parts, outs)}
        reservoir.offer(ctx.memory, rows, ctx.random["memory"])


class SeenClasses(nn.Module):
    """The first classes of a classifier that already has outputs for those to come."""

    def __init__(self, classifier: nn.Module, count: int) -> None:
        super().__init__()
        self.classifier = classifier
        self.count = count

    def forward(self, features: Tensor) -> Tensor:
        """Map (N, D) features to (N, count) scores."""
        scores: Tensor = self.classifier(features)
        return scores[:, : self.count]


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy in float32; 0 with a graph for an empty batch."""
    if len(y) == 0:
        return logits.float().sum() * 0.0
    return torch.nn.functional.cross_entropy(logits.float(), y)


def remember_balanced(ctx: Context) -> None:
    """Shrink the old classes in the memory to Co2L's quotas and fill it with the task just learned, at random."""
    choose = random_choice(ctx.random["memory"])
    old, new = balanced_update(
        ctx.memory,
        ctx.task.train.y,
        num_old_tasks=ctx.task.index,
        generator=ctx.random["memory"],
        choose_old=choose,
        choose_new=choose,
    )
    ctx.remember(old, new)
