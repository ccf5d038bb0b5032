"""GPLASC for a training loop of your own: the criterion; `gplasc.criterion.loop` has the object that keeps a memory."""

from gplasc.criterion.criterion import GPLASC

__all__ = ["GPLASC"]
