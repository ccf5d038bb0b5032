"""The memory: a buffer of samples, and one file per rule that selects them."""

from gplasc.memory.buffer import Buffer

__all__ = ["Buffer"]
