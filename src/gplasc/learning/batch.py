"""What is trained on: batches from the pool and the memory, and the parts of a batch that are forwarded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor

from gplasc.models import Network, Outputs

if TYPE_CHECKING:
    from gplasc.learning.context import Context

Head = Literal["projection", "classifier"]
AugmentationKind = Literal["contrastive", "replay", "plain"]
PoolKind = Literal["current", "mixed", "split", "everything"]


@dataclass(frozen=True)
class ImageFormat:
    """How images look before augmentation: (C, H, W), and mean and std of each channel scaled to 0..1.

    Features of a frozen encoder take the place of images in the shape (views, 1, D): the first view is that of the
    plain image, the others are augmented ones. They have neither mean nor std.
    """

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    features: bool = False


@dataclass(frozen=True)
class Expected:
    """What a learner prepares for; its heads grow when more classes arrive."""

    images: ImageFormat
    classes: int
    tasks: int | None = None


@dataclass(frozen=True)
class Batch:
    """Samples that are not yet augmented, on the CPU.

    ``batch[rows]`` are some of the samples, for row indices or a mask. ``batch + other`` has the samples of both, and
    the columns that both have.
    """

    x: Tensor
    """(b, C, H, W) uint8."""
    y: Tensor
    """(b,) integer labels."""
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    """(b, ...) each: what the memory keeps with each sample, such as ``logits``."""
    memory_rows: Tensor | None = None
    """(b,) the row in the memory that a sample comes from; -1 for a sample of the current task; None if unknown."""

    @classmethod
    def of(cls, rows: Mapping[str, Tensor], memory_rows: Tensor | None = None) -> Batch:
        """Return rows of a memory, with columns ``x``, ``y`` and further ones, as a batch."""
        columns = {name: value for name, value in rows.items() if name not in ("x", "y")}
        return cls(rows["x"], rows["y"], columns, memory_rows)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Tensor) -> Batch:
        columns = {name: value[rows] for name, value in self.columns.items()}
        origin = None if self.memory_rows is None else self.memory_rows[rows]
        return Batch(self.x[rows], self.y[rows], columns, origin)

    def __add__(self, other: Batch) -> Batch:
        shared = [name for name in self.columns if name in other.columns]
        columns = {name: torch.cat([self.columns[name], other.columns[name]]) for name in shared}
        origin = None
        if self.memory_rows is not None and other.memory_rows is not None:
            origin = torch.cat([self.memory_rows, other.memory_rows])
        return Batch(torch.cat([self.x, other.x]), torch.cat([self.y, other.y]), columns, origin)


@dataclass(eq=False)
class Part:
    """Samples forwarded together: one Part = one forward pass = one BatchNorm batch. It lives for one step."""

    x: Tensor
    """(N, C, H, W) augmented images on the device, view after view. Of several processes each has its share of the
    rows here, while all else is that of all N rows."""
    y: Tensor
    """(N,) labels on the device."""
    current: Tensor
    """Rows whose label belongs to the current task. A memory may hold such rows too, so the label decides."""
    past: Tensor
    """Rows whose label belongs to an earlier task."""
    columns: Mapping[str, Tensor]
    """(N, ...) each, on the device: the columns of the batch."""
    _ctx: Context = field(repr=False)
    out: Outputs = field(init=False, repr=False)
    """The network's outputs, which the learner sets before it calls `loss`; a head runs when its output is read."""

    @cached_property
    def previous(self) -> Outputs:
        """The previous model's outputs without gradients, computed when they are first read.

        Reading them is collective: of several processes all or none must do so, so let labels and settings decide.
        """
        if self._ctx.previous is None:
            raise RuntimeError("there is no previous model in the first task")
        with torch.no_grad():
            return self._ctx.forward(self, cast(Network, self._ctx.previous["network"]))
