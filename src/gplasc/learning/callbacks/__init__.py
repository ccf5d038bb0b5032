"""Callbacks: each does one thing while a learner works."""

from gplasc.learning.callbacks.base import Callback
from gplasc.learning.callbacks.checkpoint import Checkpoint
from gplasc.learning.callbacks.progress import ProgressDisplay
from gplasc.learning.callbacks.signals import StopSignals
from gplasc.learning.callbacks.terms import FiniteCheck, NotFinite, TensorBoard, TermLog

__all__ = [
    "Callback",
    "Checkpoint",
    "FiniteCheck",
    "NotFinite",
    "ProgressDisplay",
    "StopSignals",
    "TensorBoard",
    "TermLog",
]
