"""Joint training: all tasks seen so far are at hand (oracle, upper bound)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from gplasc.learning import Context, Part, PoolKind
from gplasc.methods.base import ClassifierMethod, cross_entropy
from gplasc.settings.types import Settings


class JointSettings(Settings):
    """Joint training has no settings."""

    RETIRED: ClassVar[Mapping[str, Any]] = {"objective": "cross_entropy", "temperature": 0.1}


class Joint(ClassifierMethod[JointSettings]):
    """Each task trains on the union of all tasks so far, so that every row of the accuracy matrix has a meaning."""

    Settings = JointSettings
    DEVIATIONS = ("the union is trained on after every task; others train once, after the last task",)
    pool: ClassVar[PoolKind] = "everything"

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the cross-entropy over all rows."""
        return {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
