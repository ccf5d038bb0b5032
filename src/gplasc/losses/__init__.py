"""Losses as pure functions: tensors and numbers in, a tensor out.

Rows `z` are unit vectors unless a docstring says otherwise; `y` are integer labels. A loss without pairs, or without
rows, is 0 and still part of the graph, so `backward` always works. Half-precision input is computed in float32, also
under autocast. Losses over pairs of rows compute only a few rows of the pair matrix at a time, so that large batches
fit into memory.
"""

from gplasc.losses._inputs import check_unit_rows, unit_rows
from gplasc.losses._rows import shared_gram
from gplasc.losses.assignment import assignment_loss
from gplasc.losses.contrastive import supcon
from gplasc.losses.distillation import FeatureProjector, feature_distillation, projector_distillation
from gplasc.losses.region import (
    PositionTarget,
    RangeForm,
    RangeReduction,
    RangeTerms,
    center_loss,
    position_loss,
    range_loss,
    range_terms,
    task_center,
)
from gplasc.losses.relation import prototype_relation_distillation, relation_distillation

__all__ = [
    "FeatureProjector",
    "PositionTarget",
    "RangeForm",
    "RangeReduction",
    "RangeTerms",
    "assignment_loss",
    "center_loss",
    "check_unit_rows",
    "feature_distillation",
    "position_loss",
    "projector_distillation",
    "prototype_relation_distillation",
    "range_loss",
    "range_terms",
    "relation_distillation",
    "shared_gram",
    "supcon",
    "task_center",
    "unit_rows",
]
