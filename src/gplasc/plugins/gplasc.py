"""GPLASC: a region of the sphere for every task, small and held in place; composes with any method."""

import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from gplasc.criterion.monitor import Monitor
from gplasc.criterion.regions import Frame, Regions
from gplasc.criterion.terms import distill, gather, parse_distillation, region_terms
from gplasc.errors import UserError
from gplasc.learning import Batch, Context, Part, Plugin
from gplasc.losses import kernels
from gplasc.models import Network
from gplasc.settings.types import Settings

_UNKNOWN_TASKS = 100  # regions that are prepared if the setting says that the number of tasks is unknown
_ADVICE = "--set model.features=signed removes the last ReLU of a built-in encoder."
_FIRST_TASKS = 8  # regions that are prepared at first if the number of tasks was not announced


class GPLASCSettings(Settings):
    """Settings of the plug-in; the defaults are the paper's where it has them."""

    RETIRED: ClassVar[Mapping[str, Any]] = {"range_reduction": "mean", "space": "feature"}

    expected_tasks: int | Literal["known", "unknown"] = Field(
        "known",
        description="regions prepared: as many as the stream has tasks, an over-estimate, or 100 if unknown; if nobody "
        "announced the tasks, known prepares a frame that is extended when it is full",
    )
    margin: float = Field(0.1, ge=0, lt=1)
    lambda_range: float = Field(1.0, ge=0)
    lambda_position: float = Field(1.0, ge=0)
    lambda_distill: float = Field(1.0, ge=0)
    range_form: Literal["hinge", "softplus", "leaky_relu", "squared_hinge"] = "hinge"
    position_target: Literal["auto", "unit", "scaled"] = Field(
        "auto", description="auto: unit with pooled ReLU features of a built-in encoder, otherwise scaled"
    )
    distillation: str = Field("mse", description="mse, ird, projector, none, or a sum such as mse:1+ird:0.5")
    memory_rows: Literal["auto", "minibatch"] = Field(
        "auto",
        description="past samples to hold in place: those the method forwards, or a minibatch of our own",
    )
    memory_batch: int = Field(32, gt=0)
    lambda_contrast: float = Field(1.0, ge=0, description="of SupCon, with a method without contrastive term")
    contrast_temperature: float = Field(0.1, gt=0)
    share_views: bool = Field(
        False,
        exclude_if=operator.not_,
        description="with a method that has no contrastive term: compute the terms on the method's own views of the "
        "current samples, not on two further ones, which cost more than the method's step",
    )

    @field_validator("distillation")
    @classmethod
    def _readable(cls, text: str) -> str:
        parse_distillation(text)
        return text


class GPLASCPlugin(Plugin[GPLASCSettings]):
    """Adds range, position and distillation; to a method without a contrastive term also SupCon on two views."""

    LIKE = "gplasc"
    Settings = GPLASCSettings
    DEVIATIONS: ClassVar[tuple[str, ...]] = (
        "the contrastive term is once in the sum: the paper's formula counts it twice",
        "the method's own distillation (IRD, PRD) is kept, as in the paper's algorithm; its formula leaves it out",
        "range is a mean over pairs, position a squared norm, distillation a mean over the batch's past rows: the "
        "paper leaves the reductions open",
        "position_target='auto': with signed features the target has the length that fits the threshold, so that range "
        "and position can both vanish; with pooled ReLU features it is the paper's unit vertex",
        "the center of a task is the mean of its class means, not of its rows as in the paper's definition: the two "
        "are equal in a batch with as many rows of each class",
        "the previous model runs in the mode that the method wants; with a method that needs none, in training mode "
        "like the network itself, so that equal weights have no distance. With a mode of 'eval' (iCaRL, CCLIS) they "
        "have one, because the network normalizes with batch statistics",
        "a method without projection head gets one, and SupCon sees the method's own views; with share_views=false two "
        "further ones, which leave BatchNorm's running statistics alone: they would describe strongly augmented images",
    )

    def __init__(self, settings: GPLASCSettings) -> None:
        super().__init__(settings)
        self.monitor = Monitor(_ADVICE)
        self._distillation = parse_distillation(settings.distillation)
        self.heads = frozenset({"projection"} if settings.lambda_contrast > 0 else ())

    @property
    def needs_previous(self) -> bool:
        """Whether past features are to be held where the previous model put them."""
        return self.settings.lambda_distill > 0 and bool(self._distillation)

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Prepare the regions."""
        extended: Frame = "orthonormal" if ctx.signed else "nonnegative"
        regions = Regions(
            self._num_tasks(ctx),
            network.feature_dim,
            margin=self.settings.margin,
            frame=extended if self._open_ended(ctx) else "auto" if ctx.signed is None else "simplex",
            projector="projector" in self._distillation,
            signed=ctx.signed is not False,
            seed=int(torch.randint(2**31, (1,), generator=ctx.random["gplasc.frame"])),
        )
        return {"gplasc": regions}

    def state_dict(self) -> dict[str, Any]:
        """Return what the terms saw last: a run that is cut off before its evaluation still reports it."""
        return {"report": self.monitor.report()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what the terms saw last."""
        self.monitor.seen = dict(state["report"])

    def begin_task(self, ctx: Context) -> None:
        """Add a direction for a task that was not announced; those of earlier tasks do not move."""
        regions, region = self._regions(ctx), ctx.region
        if region is not None and region >= regions.num_tasks and self._open_ended(ctx):
            wanted = min(2 * regions.num_tasks, regions.feature_dim)
            # The feature dimension is the largest number of orthogonal directions, so the last steps are small.
            while wanted > region:
                try:
                    regions.extend(wanted)
                    return
                except ValueError:
                    wanted = min(wanted - 1, max(region + 1, wanted // 2))

    def parts(self, batch: Batch, method_parts: dict[str, Part], ctx: Context) -> dict[str, Part]:
        """Ask for two views of the current samples and for past samples, where the method does not forward them."""
        settings, generator, parts = self.settings, ctx.random["gplasc"], {}
        wanted = max(settings.lambda_contrast, settings.lambda_range, settings.lambda_position) > 0
        if wanted and not settings.share_views and "projection" not in ctx.method.heads:
            rows = batch[batch.y >= ctx.task.classes.start]
            if len(rows):
                parts["views"] = ctx.part(rows, views=2, augmentation="contrastive", generator=generator)
        forwarded = ctx.method.forwards_memory or ctx.pool.num_memory > 0
        missing = settings.memory_rows == "minibatch" or not forwarded
        if missing and ctx.previous is not None and len(ctx.memory):
            drawn = ctx.draw(self.minibatch_rows(batch, ctx), generator)
            parts["memory"] = ctx.part(drawn, generator=generator)
        return parts

    def minibatch_rows(self, batch: Batch, ctx: Context) -> int:
        """Return how many past samples are forwarded with a batch, if the method does not forward them."""
        return self.settings.memory_batch

    def loss(self, method_parts: dict[str, Part], parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return range and position on current rows and distillation on past rows; none with a weight of 0."""
        settings = self.settings
        shaped = [parts["views"]] if "views" in parts else [*method_parts.values()]
        z = kernels.unit(gather(*((part.out.features, part.current) for part in shaped)))
        y = gather(*((part.y, part.current) for part in shaped))
        terms = self._place(z, y, ctx)
        if settings.lambda_distill > 0:
            terms["distill"] = z.sum() * 0.0
            held = [part for part in (*method_parts.values(), *parts.values()) if len(part.past)]
            if held and self._distillation and ctx.previous is not None:
                now = gather(*((part.out.features, part.past) for part in held))
                before = gather(*((part.previous.features, part.past) for part in held))
                loss = distill(now, before, self._distillation, self._regions(ctx).projector)
                terms["distill"] = settings.lambda_distill * loss
        if settings.lambda_contrast > 0 and len(y) and "projection" not in ctx.method.heads:
            projected = gather(*((part.out.projection, part.current) for part in shaped))
            contrast = kernels.supcon(projected, y, settings.contrast_temperature)
            terms["contrast"] = settings.lambda_contrast * contrast
        return terms

    def _place(self, z: Tensor, y: Tensor, ctx: Context) -> dict[str, Tensor]:
        """Return range and position of the current rows; 0 if the task has no region."""
        settings, regions, region = self.settings, self._regions(ctx), ctx.region
        weights = {"range": settings.lambda_range, "position": settings.lambda_position}
        if region is not None and region < regions.num_tasks:
            regions.class_counts[region] = len(ctx.task.classes)
        form, target = settings.range_form, settings.position_target
        scaled = target == "scaled" or (target == "auto" and ctx.signed is not False)
        return region_terms(z, y, region, regions, self.monitor, weights, form=form, scaled=scaled)

    def diagnostics(self, ctx: Context) -> dict[str, Any]:
        """Return what the theory says of the task, the prepared centers, and what the terms saw last."""
        regions, region = self._regions(ctx), ctx.region
        if region is None or region >= regions.num_tasks or not ctx.method.trains:
            return {}
        return {
            "region": regions.size(len(ctx.task.classes)),
            "vertices": regions.vertices.cpu(),
            "last_step": self.monitor.report(),
        }

    def _open_ended(self, ctx: Context) -> bool:
        return self.settings.expected_tasks == "known" and ctx.expected_tasks is None

    def _regions(self, ctx: Context) -> Regions:
        return cast(Regions, ctx.modules["gplasc"])

    def _num_tasks(self, ctx: Context) -> int:
        wanted, announced = self.settings.expected_tasks, ctx.expected_tasks
        if wanted == "unknown":
            return _UNKNOWN_TASKS
        if wanted == "known":
            return _FIRST_TASKS if announced is None else announced
        if announced is not None and wanted < announced:
            raise UserError(
                f"gplasc.expected_tasks is {wanted}, but the stream has {announced} tasks; an over-estimate is "
                "allowed, an under-estimate is not"
            )
        return wanted
