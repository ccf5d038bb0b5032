"""Joint training: all tasks seen so far are at hand (oracle, upper bound)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from gplasc.learning import PoolKind
from gplasc.methods.base import ClassifierMethod
from gplasc.settings.types import Settings


class _Settings(Settings):
    """Joint training has no settings."""

    RETIRED: ClassVar[Mapping[str, Any]] = {"objective": "cross_entropy", "temperature": 0.1}


class Joint(ClassifierMethod[_Settings]):
    """Each task trains on the union of all tasks so far, so that every row of the accuracy matrix has a meaning."""

    Settings = _Settings
    DEVIATIONS = ("the union is trained on after every task; others train once, after the last task",)
    pool: ClassVar[PoolKind] = "everything"
