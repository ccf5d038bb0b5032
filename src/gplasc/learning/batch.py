"""What is trained on: batches from the pool, and the parts of a batch that are forwarded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

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


@dataclass
class Batch:
    """Samples as they come from the pool: b images, not yet augmented, on the CPU."""

    x: Tensor
    """(b, C, H, W) uint8."""
    y: Tensor
    """(b,) integer labels."""
    memory_rows: Tensor
    """(b,) the row in the memory that a sample comes from; -1 for a sample of the current task."""


@dataclass
class Part:
    """Samples forwarded together: one Part = one forward pass = one BatchNorm batch."""

    x: Tensor
    """(N, C, H, W) augmented images on the device, view after view. Of several processes each has its share of the
    rows here, while all else is that of all N rows; forward a part with `Context.forward`."""
    y: Tensor
    """(N,) labels on the device."""
    current: Tensor
    """Rows whose label belongs to the current task. A memory may hold such rows too, so the label decides."""
    past: Tensor
    """Rows whose label belongs to an earlier task."""
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Columns the memory keeps beside image and label."""


class MethodTraits(Protocol):
    """What the context and the plug-ins may know about the method."""

    @property
    def heads(self) -> frozenset[Head]:
        """The heads the network must have."""

    @property
    def augmentation(self) -> AugmentationKind:
        """The augmentation of the method's own parts."""

    @property
    def forwards_memory(self) -> bool:
        """Whether remembered samples are among those the method forwards."""

    @property
    def trains(self) -> bool:
        """Whether the network is trained."""

    @property
    def teacher(self) -> Literal["train", "eval"] | None:
        """The mode in which the previous model runs, or None if the method does not need it."""
