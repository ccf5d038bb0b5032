"""CILA: Co2L whose distillation weight adapts to the tasks learned so far (Wen et al., ICML 2024)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from gplasc.learning import Context, Part
from gplasc.methods.co2l import Co2L, Co2LSettings


class _Settings(Co2LSettings):
    """Settings of CILA."""

    RETIRED: ClassVar[Mapping[str, Any]] = {**Co2LSettings.RETIRED, "average_over": "last_epoch"}

    kappa: float = Field(1.0, ge=0, description="factor of the ratio of past losses")


class CILA(Co2L):
    """The weight is 1 in the second task, then max(1, kappa * past distillation / past contrast)."""

    Settings = _Settings
    DEVIATIONS = (
        *Co2L.DEVIATIONS,
        "kappa=1: its value is not published, and there is no public code",
        "the ratio uses the contrastive loss without the factor temperature / 0.07; with it the maximum would always "
        "be 1",
        "a task's losses are averaged over its last epoch: over which steps is not published",
    )
    settings: _Settings

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._means = torch.zeros(2, dtype=torch.float64)  # over past tasks: mean contrast, mean distillation
        self._sums = torch.zeros(3, dtype=torch.float64)  # this task: contrast, distillation, steps

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return Co2L's terms, and note their size without waiting for the device."""
        terms = super().loss(parts, ctx)
        if ctx.epoch == ctx.epochs - 1 and "ird" in terms:
            contrast = terms["supcon"].detach() / self.scale
            distill = terms["ird"].detach() / max(self.distillation_weight(ctx), 1e-12)
            self._sums = self._sums.to(contrast.device)
            self._sums += torch.stack([contrast, distill, torch.ones_like(contrast)]).double()
        return terms

    def end_task(self, ctx: Context) -> None:
        """Add the task's mean losses to those of the tasks before, and remember as Co2L does."""
        super().end_task(ctx)
        contrast, distill, steps = self._sums.cpu()
        if steps > 0:
            self._means += torch.stack([contrast, distill]) / steps
        self._sums = torch.zeros(3, dtype=torch.float64)

    def distillation_weight(self, ctx: Context) -> float:
        """Return the paper's lambda_t times ``distill_weight``."""
        contrast, distill = self._means.tolist()
        if contrast <= 0:  # the first two tasks: no task with a distillation lies behind
            return self.settings.distill_weight
        return float(self.settings.distill_weight * max(1.0, self.settings.kappa * distill / contrast))

    def state_dict(self) -> dict[str, Any]:
        """Return the loss statistics."""
        return {"means": self._means.clone(), "sums": self._sums.cpu().clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the loss statistics back."""
        self._means, self._sums = state["means"].clone(), state["sums"].clone()
