"""What is remembered: the buffer, and one file per rule that decides which samples are kept."""

from gplasc.memory.buffer import Buffer

__all__ = ["Buffer"]
