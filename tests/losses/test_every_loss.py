"""What holds for every loss: finite and part of the graph for any batch, in float32 or better, also in autocast."""

import pytest
import torch
from torch import Tensor

from gplasc.losses import (
    FeatureProjector,
    assignment_loss,
    feature_distillation,
    position_loss,
    projector_distillation,
    prototype_relation_distillation,
    range_loss,
    relation_distillation,
    supcon,
    unit_rows,
)

FORMS = ("hinge", "softplus", "leaky_relu", "squared_hinge")
COLD = {"student_temperature": 0.01, "teacher_temperature": 0.01}


def through_projector(z: Tensor, y: Tensor) -> Tensor:
    projector = FeatureProjector(3, 2).to(torch.float64 if z.dtype == torch.float64 else torch.float32)
    return projector_distillation(z, torch.ones_like(z), projector)


def to_prototypes(z: Tensor, y: Tensor) -> Tensor:
    prototypes = torch.eye(3, dtype=z.dtype)
    return prototype_relation_distillation(z, z.detach(), prototypes, prototypes, **COLD)


LOSSES = {
    "supcon": lambda z, y: supcon(z, y, temperature=0.01),
    "supcon over rows": lambda z, y: supcon(z, y, temperature=0.01, divisor="rows"),
    **{
        f"range {form} {reduction}": lambda z, y, form=form, reduction=reduction: range_loss(
            z, y, 0.5, form=form, reduction=reduction
        )
        for form in FORMS
        for reduction in ("mean", "sum")
    },
    "position": lambda z, y: position_loss(z, y, torch.eye(3)[1]),
    "position scaled": lambda z, y: position_loss(z, y, torch.eye(3)[1], target="scaled", norm=0.5),
    "relation": lambda z, y: relation_distillation(z, z.detach(), **COLD),
    "prototypes": to_prototypes,
    "features": lambda z, y: feature_distillation(z, torch.ones_like(z)),
    "projector": through_projector,
    "assignment": lambda z, y: assignment_loss(z, y % 3, torch.eye(3)),
}
CASES = {
    "no rows": (torch.empty(0, 3), []),
    "one row": (torch.eye(3)[:1], [0]),
    "one class": (torch.eye(3), [2, 2, 2]),
    "each its own class": (torch.eye(3), [0, 1, 2]),
    "all rows equal": (torch.eye(3)[:1].repeat(6, 1), [0, 0, 1, 1, 2, 2]),
    "opposite rows": (torch.cat([torch.eye(3), -torch.eye(3)]), [0, 1, 2, 0, 1, 2]),
    "rows that cancel": (torch.cat([torch.eye(3), -torch.eye(3)]), [0, 1, 2, 3, 4, 5]),
    "a row of zeros": (torch.cat([torch.eye(3), torch.zeros(1, 3)]), [0, 0, 1, 1]),
}
ZERO = {
    "no rows": {name.split()[0] for name in LOSSES},
    "one row": {"supcon", "range", "relation"},
    "one class": {"range"},
    "each its own class": {"supcon"},
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("height", [None, 1])
def test_it_is_never_nan_and_always_has_a_graph(case, dtype, height, in_blocks):
    in_blocks(height)
    rows, labels = CASES[case]
    z, y = rows.to(dtype).requires_grad_(), torch.tensor(labels, dtype=torch.int64)
    for name, function in LOSSES.items():
        loss = function(z, y)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.isfinite(), name
        assert gradient.isfinite().all(), name
        assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32), name
        if name.split()[0] in ZERO.get(case, ()):
            assert loss.item() == 0, name
            assert not gradient.any(), name


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_and_autocast_are_computed_in_float32(name, in_blocks):
    generator = torch.Generator().manual_seed(0)
    z = unit_rows(torch.randn(32, 3, generator=generator)).bfloat16()
    y = torch.randint(0, 4, (32,), generator=generator)
    exact = LOSSES[name](z.float(), y)
    assert torch.equal(LOSSES[name](z, y), exact)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(LOSSES[name](z.float(), y), exact)
        in_blocks(5, 32)
        assert torch.allclose(LOSSES[name](z.float(), y), exact, atol=1e-5)
