"""Losses as pure functions: tensors and numbers in, a tensor out.

Rows `z` are unit vectors unless a docstring says otherwise; `y` are integer labels. A loss has the shape (), or (N,)
with reduction "none". Without pairs or rows it is 0 and part of the graph, so `backward` always works. Half-precision
input is computed in float32, also under autocast. Losses over pairs of rows compute only a few rows of the pair matrix
at a time, so that large batches fit into memory.

These functions check their arguments and call `gplasc.losses.kernels`, which do not. What is no tensor, or a tensor of
the wrong type, is a TypeError; shapes that do not fit, rows of another length and unknown options are a ValueError.
"""

from gplasc.losses.assignment import assignment_loss
from gplasc.losses.contrastive import supcon, unit_rows
from gplasc.losses.distillation import (
    FeatureProjector,
    feature_distillation,
    projector_distillation,
    prototype_relation_distillation,
    relation_distillation,
)
from gplasc.losses.region import position_loss, range_loss

__all__ = [
    "FeatureProjector",
    "assignment_loss",
    "feature_distillation",
    "position_loss",
    "projector_distillation",
    "prototype_relation_distillation",
    "range_loss",
    "relation_distillation",
    "supcon",
    "unit_rows",
]
