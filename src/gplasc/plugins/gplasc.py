"""GPLASC: a region of the sphere for every task, small and held in place; composes with any method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from gplasc.config import Settings
from gplasc.criterion import GPLASC
from gplasc.errors import UserError
from gplasc.losses import supcon
from gplasc.methods.base import Batch, Head, Part
from gplasc.models import Network, Outputs
from gplasc.plugins.base import Plugin

if TYPE_CHECKING:
    from gplasc.learning.context import Context


class GPLASCSettings(Settings):
    """Settings of the plug-in; the defaults are the paper's where it has them."""

    expected_tasks: int | Literal["known", "unknown"] = Field(
        "known",
        description="regions prepared: as many as the stream has tasks, an over-estimate, or 100 if unknown",
    )
    margin: float = Field(0.1, ge=0, lt=1)
    lambda_range: float = Field(1.0, ge=0)
    lambda_position: float = Field(1.0, ge=0)
    lambda_distill: float = Field(1.0, ge=0)
    range_form: Literal["hinge", "softplus", "leaky_relu", "squared_hinge"] = "hinge"
    range_reduction: Literal["mean", "mean_active", "sum"] = "mean"
    position_target: Literal["auto", "unit", "scaled", "cosine"] = Field(
        "auto",
        description="auto: scaled where the features are signed, unit where they are pooled ReLU outputs",
    )
    distillation: str = Field("mse", description="mse, ird, projector, none, or a sum such as mse:1+ird:0.5")
    space: Literal["feature", "projection"] = "feature"
    memory_rows: Literal["auto", "batch", "minibatch"] = Field(
        "auto",
        description="past samples to hold in place: those the method forwards, or a minibatch of our own",
    )
    memory_batch: int = Field(32, gt=0)
    lambda_contrast: float = Field(
        1.0, ge=0, description="of SupCon beside a method that has no contrastive term"
    )
    contrast_temperature: float = Field(0.1, gt=0)

    @field_validator("distillation")
    @classmethod
    def _readable(cls, text: str) -> str:
        parse_distillation(text)
        return text


def parse_distillation(text: str) -> dict[str, float]:
    """Read a weighted sum of distillations.

    >>> parse_distillation("mse+ird:0.5"), parse_distillation("none")
    ({'mse': 1.0, 'ird': 0.5}, {})
    """
    weights: dict[str, float] = {}
    for item in text.split("+"):
        name, _, weight = item.strip().partition(":")
        if name not in ("mse", "ird", "projector", "none"):
            raise ValueError(f"'{name}' is no distillation; allowed: mse, ird, projector, none, joined by +")
        if name != "none":
            weights[name] = float(weight or 1.0)
    return weights


class GPLASCPlugin(Plugin[GPLASCSettings]):
    """Adds range, position and distillation; beside a method without a contrastive term also SupCon on two views."""

    Settings = GPLASCSettings
    DEVIATIONS = (
        "the contrastive term stands once in the sum: the paper's formula counts it twice",
        "the method's own distillation (IRD, PRD) is kept, as in the paper's algorithm; its formula leaves it out",
        "range is a mean over pairs, position a squared norm, distillation a mean over the batch's past rows: the "
        "paper leaves the reductions open",
        "position_target='auto': with signed features the target has the length that fits the threshold, so that range "
        "and position can both vanish; with pooled ReLU features it is the paper's unit vertex",
        "beside a method without projection head, one is added, and SupCon sees two views of the current samples; they "
        "leave BatchNorm's running statistics alone, which would otherwise describe strongly augmented images",
    )

    criterion: GPLASC

    @property
    def needs_previous(self) -> bool:  # type: ignore[override]
        """Whether past features are to be held where the previous model put them."""
        return self.settings.lambda_distill > 0 and bool(parse_distillation(self.settings.distillation))

    @property
    def heads(self) -> frozenset[Head]:
        """The projection head: SupCon needs it beside any method."""
        return frozenset({"projection"})

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Prepare the regions."""
        settings, stream = self.settings, ctx.stream
        in_features = settings.space == "feature"
        signed = ctx.config.model.features == "signed" or not in_features
        expected = {"known": len(stream), "unknown": 100}.get(
            str(settings.expected_tasks), settings.expected_tasks
        )
        num_tasks = int(expected)
        if num_tasks < len(stream):
            raise UserError(
                f"gplasc.expected_tasks is {num_tasks}, but the stream has {len(stream)} tasks; an over-estimate is "
                "allowed, an under-estimate is not"
            )
        target = settings.position_target
        self.criterion = GPLASC(
            num_tasks,
            network.feature_dim if in_features else ctx.config.model.projection_dim,
            margin=settings.margin,
            lambda_range=settings.lambda_range,
            lambda_position=settings.lambda_position,
            lambda_distill=settings.lambda_distill,
            position_target=("scaled" if signed else "unit") if target == "auto" else target,
            range_form=settings.range_form,
            range_reduction=settings.range_reduction,
            distillation=parse_distillation(settings.distillation),
            projector_sigmoid=not signed,
            frame="simplex",
            limit_gradient=False,
            check_features=False,  # the learner checks the terms, and names the one that is not finite
            seed=int(torch.randint(2**31, (1,), generator=ctx.random["gplasc.frame"])),
        )
        return {"gplasc": self.criterion}

    def state_dict(self) -> dict[str, Any]:
        """Return what the terms saw last: a run that is cut off before its evaluation still reports it."""
        return {"report": self.criterion.report()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what the terms saw last."""
        self.criterion.load_report(state["report"])

    def parts(self, batch: Batch, own: list[Part], ctx: Context) -> list[Part]:
        """Ask for two views of the current samples and for past samples, where the method does not forward them."""
        generator = ctx.random["gplasc"]
        more = []
        if not self._contrastive(ctx):
            more.append(ctx.part(batch.x, batch.y, views=2, augmentation="contrastive", generator=generator))
        if ctx.previous is not None and self._brings_memory(ctx) and len(ctx.memory):
            rows, _ = ctx.memory_batch(self.settings.memory_batch, generator)
            more.append(ctx.part(rows.x, rows.y, augmentation=ctx.method.augmentation, generator=generator))
        return more

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return range and position on current rows and distillation on past rows."""
        contrastive = self._contrastive(ctx)
        shaped = [i for i, part in enumerate(parts) if contrastive or part.views == 2]
        features = _gather([self._space(outs[i])[parts[i].current] for i in shaped])
        labels = _gather([parts[i].y[parts[i].current] for i in shaped])
        student = teacher = None
        if ctx.previous is not None and self.needs_previous:
            held = [i for i, part in enumerate(parts) if len(part.past)]
            if held:
                student = _gather([self._space(outs[i])[parts[i].past] for i in held])
                teacher = _gather([self._space(ctx.previous_outputs(parts[i]))[parts[i].past] for i in held])
        terms: dict[str, Tensor] = self.criterion(
            features,
            labels,
            ctx.task.index,
            num_classes=len(ctx.task.classes),
            past_features=student,
            previous_features=teacher,
        )
        if not contrastive and self.settings.lambda_contrast > 0:
            (pair,) = shaped
            term = supcon(
                outs[pair].projection, parts[pair].y, temperature=self.settings.contrast_temperature
            )
            terms["contrast"] = self.settings.lambda_contrast * term
        return terms

    def diagnostics(self, ctx: Context) -> dict[str, Any]:
        """Return what the theory says of the task, the prepared centers, and what the terms saw last."""
        if self.settings.space != "feature":
            return {"last_step": self.criterion.report()}
        return {
            "region": self.criterion.region(ctx.task.index),
            "vertices": self.criterion.vertices.cpu(),
            "last_step": self.criterion.report(),
        }

    def _contrastive(self, ctx: Context) -> bool:
        return "projection" in ctx.method.heads

    def _brings_memory(self, ctx: Context) -> bool:
        wanted = self.settings.memory_rows
        return wanted == "minibatch" or (wanted == "auto" and not ctx.method.forwards_memory)

    def _space(self, out: Outputs) -> Tensor:
        return out.features if self.settings.space == "feature" else out.projection


def _gather(rows: list[Tensor]) -> Tensor:
    return rows[0] if len(rows) == 1 else torch.cat(rows)
