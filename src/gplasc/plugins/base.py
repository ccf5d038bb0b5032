"""What a plug-in is: it may ask for more samples and add terms, and never edits the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from gplasc.methods.base import Batch, Component, Part, SettingsType
from gplasc.models import Outputs

if TYPE_CHECKING:
    from gplasc.learning.context import Context


class Plugin(Component[SettingsType]):
    """Terms that compose with any method."""

    needs_previous: bool = False
    """Whether the model after the last task must be kept even if the method does not ask for it."""

    def parts(self, batch: Batch, own: list[Part], ctx: Context) -> list[Part]:
        """Return further parts to forward, given the method's own.

        They leave BatchNorm's running statistics alone: those describe the images the method predicts.
        """
        return []

    def loss(self, parts: list[Part], outs: list[Outputs], ctx: Context) -> dict[str, Tensor]:
        """Return the named terms; ``parts`` are the method's, then those of all plug-ins."""
        return {}

    def diagnostics(self, ctx: Context) -> dict[str, Any]:
        """Return what the geometry of the current task should be compared with, as arguments of `diagnose`."""
        return {}
