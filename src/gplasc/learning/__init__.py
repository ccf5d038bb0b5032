"""The contract of methods and plug-ins, and the loop that runs them."""

from gplasc.learning.batch import AugmentationKind, Batch, Expected, Head, ImageFormat, Part, PoolKind
from gplasc.learning.callbacks.base import Callback
from gplasc.learning.context import Context
from gplasc.learning.contract import Component, Method, Plugin
from gplasc.learning.learner import Learner
from gplasc.learning.optimizer import ModuleRate

__all__ = [
    "AugmentationKind",
    "Batch",
    "Callback",
    "Component",
    "Context",
    "Expected",
    "Head",
    "ImageFormat",
    "Learner",
    "Method",
    "ModuleRate",
    "Part",
    "Plugin",
    "PoolKind",
]
