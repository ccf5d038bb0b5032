"""Losses as pure functions: tensors and floats in, a tensor out.

Rows `z` are unit vectors unless a docstring says otherwise, `y` are integer labels. A term without pairs,
or without rows, is 0 and keeps its graph, so `backward` always works. Half-precision input is computed in
float32, also under autocast. Losses over pairs of rows need no more than a few rows of the pair matrix at a
time, so large batches fit into memory (see `rows.py`).
"""

from gplasc.losses.contrastive import supcon
from gplasc.losses.distillation import FeatureProjector, feature_distillation, projector_distillation
from gplasc.losses.inputs import check_unit_rows, unit_rows
from gplasc.losses.region import (
    RangeTerms,
    center_loss,
    position_loss,
    range_loss,
    range_terms,
    task_center,
)
from gplasc.losses.relation import prototype_relation_distillation, relation_distillation
from gplasc.losses.rows import shared_gram

__all__ = [
    "FeatureProjector",
    "RangeTerms",
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
