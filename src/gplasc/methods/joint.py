"""Joint training: all tasks seen so far are at hand (oracle, upper bound)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from gplasc.learning import AugmentationKind, Batch, Context, Head, Part, PoolKind
from gplasc.learning.probe import new_probe, train_probe
from gplasc.losses import kernels
from gplasc.methods.base import ClassifierMethod, cross_entropy
from gplasc.models import Outputs
from gplasc.settings.types import Settings


class JointSettings(Settings):
    """Settings of joint training."""

    objective: Literal["cross_entropy", "supcon"] = "cross_entropy"
    temperature: float = Field(0.1, gt=0, description="of the objective supcon")


class Joint(ClassifierMethod[JointSettings]):
    """Each task trains on the union of all tasks so far, so that every row of the accuracy matrix has a meaning."""

    Settings = JointSettings
    DEVIATIONS = ("the union is trained on after every task; others train once, after the last task",)
    pool: ClassVar[PoolKind] = "everything"

    @property
    def heads(self) -> frozenset[Head]:
        """The classifier, or the projection head for the contrastive objective."""
        return frozenset({"projection"}) if self._contrastive else super().heads

    @property
    def _contrastive(self) -> bool:
        return self.settings.objective == "supcon"

    def parts(self, batch: Batch, ctx: Context) -> list[Part]:
        """Return one view, or two for the contrastive objective."""
        kind: AugmentationKind = "contrastive" if self._contrastive else "replay"
        return [ctx.part(batch.x, batch.y, views=2 if self._contrastive else 1, augmentation=kind)]

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return the objective over all rows."""
        if not self._contrastive:
            return {"ce": cross_entropy(outs[0].logits, parts[0].y)}
        temperature = self.settings.temperature
        return {"supcon": kernels.supcon(outs[0].projection, parts[0].y, temperature)}

    def predictor(self, ctx: Context) -> nn.Module:
        """Return the classifier, or a probe for the contrastive objective."""
        return new_probe(ctx) if self._contrastive else super().predictor(ctx)

    def fit_predictor(self, predictor: nn.Module, ctx: Context) -> None:
        """Train the probe of the contrastive objective."""
        if self._contrastive:
            train_probe(predictor, ctx)
