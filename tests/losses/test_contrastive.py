import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gplasc.geometry import supcon_lower_bound
from gplasc.losses import kernels, supcon, unit_rows


def batch(rows: int, dim: int, classes: int, seed: int = 0, dtype=torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = unit_rows(torch.randn(rows, dim, dtype=torch.float64, generator=generator)).to(dtype)
    return z, torch.randint(0, classes, (rows,), generator=generator)


def slow_rows(z: Tensor, y: Tensor, temperature: float) -> list[float | None]:
    """Loss of each anchor, None where it has no positive."""
    losses: list[float | None] = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        positives = [j for j in others if y[j] == y[i]]
        if not positives:
            losses.append(None)
            continue
        normalizer = math.log(sum(math.exp(float(z[i] @ z[a]) / temperature) for a in others))
        losses.append(-sum(float(z[i] @ z[j]) / temperature - normalizer for j in positives) / len(positives))
    return losses


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("height", [None, 4])
def test_it_is_the_double_loop(seed, height, in_blocks):
    in_blocks(height, 11)
    z, y = batch(11, 5, 4, seed)
    y[3] = 9
    rows = slow_rows(z, y, 0.3)
    assert rows[3] is None
    valid = [row for row in rows if row is not None]
    assert supcon(z, y, temperature=0.3).item() == pytest.approx(sum(valid) / len(valid))
    assert supcon(z, y, temperature=0.3, divisor="rows", base_temperature=0.07).item() == pytest.approx(
        0.3 / 0.07 * sum(valid) / len(z)
    )
    assert supcon(z, y, temperature=0.3, reduction="sum").item() == pytest.approx(sum(valid))
    expected = torch.tensor([row or 0.0 for row in rows], dtype=torch.float64)
    assert torch.allclose(supcon(z, y, temperature=0.3, reduction="none"), expected)


def test_anchors_choose_who_has_a_loss_and_rows_divides_by_all():
    z, y = batch(12, 4, 3, seed=1)
    anchors = y > 0
    rows = slow_rows(z, y, 0.2)
    chosen = [rows[i] for i in range(12) if anchors[i] and rows[i] is not None]
    assert supcon(z, y, temperature=0.2, anchors=anchors).item() == pytest.approx(sum(chosen) / len(chosen))
    asymmetric = supcon(z, y, temperature=0.2, anchors=anchors, divisor="rows")
    assert asymmetric.item() == pytest.approx(sum(chosen) / 12)
    none = supcon(z.requires_grad_(), y, temperature=0.2, anchors=torch.zeros(12, dtype=torch.bool))
    assert none.item() == 0
    none.backward()
    assert torch.equal(z.grad, torch.zeros_like(z))


@pytest.mark.parametrize("seed", range(5))
def test_it_equals_pytorch_metric_learning(seed):
    from pytorch_metric_learning.losses import SupConLoss

    for temperature in (0.07, 0.1, 0.5):
        z, y = batch(64, 16, 8, seed, torch.float32)
        ours = supcon(z, y, temperature=temperature)
        theirs = SupConLoss(temperature=temperature)(z, y)
        assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)


@given(
    classes=st.integers(2, 6),
    copies=st.integers(2, 4),
    share=st.floats(0, 0.98),
    temperature=st.floats(0.02, 2),
)
@settings(max_examples=50, deadline=None)
def test_at_the_simplex_it_is_the_closed_form(classes, copies, share, temperature):
    k = -1 / (classes - 1) + share * (1 + 1 / (classes - 1))
    gram = torch.full((classes, classes), k, dtype=torch.float64).fill_diagonal_(1)
    values, vectors = torch.linalg.eigh(gram)
    y = torch.arange(classes).repeat(copies)
    z = (vectors * values.clamp(min=0).sqrt())[y]
    rows = len(y)
    closed = rows * math.log(copies - 1 + (rows - copies) * math.exp(-(1 - k) / temperature))
    assert supcon(z, y, temperature=temperature, reduction="sum").item() == pytest.approx(closed, abs=1e-8)
    assert supcon_lower_bound(classes, copies, k=k, temperature=temperature) == pytest.approx(
        closed, abs=1e-8
    )


@pytest.mark.parametrize("k", [-0.5, 0.0, 0.4])
def test_only_the_plain_simplex_is_at_rest_and_others_are_pushed_apart(k):
    gram = torch.full((3, 3), k, dtype=torch.float64).fill_diagonal_(1)
    values, vectors = torch.linalg.eigh(gram)
    y = torch.arange(3).repeat(2)
    z = (vectors * values.clamp(min=0).sqrt())[y].requires_grad_()
    supcon(z, y, temperature=0.5).backward()
    points = z.detach()
    tangential = z.grad - (z.grad * points).sum(dim=1, keepdim=True) * points
    if k == -0.5:
        assert torch.allclose(tangential, torch.zeros_like(tangential), atol=1e-9)
    else:
        outwards = points - points.mean(dim=0)
        assert ((-tangential * outwards).sum(dim=1) > 1e-4).all()


@given(seed=st.integers(0, 10_000), rows=st.integers(2, 20))
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_and_the_names_of_classes_do_not_matter(seed, rows):
    z, y = batch(rows, 4, 3, seed)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    value = supcon(z, y, temperature=0.2)
    assert torch.allclose(value, supcon(z[order], 7 - 3 * y[order], temperature=0.2))
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    assert torch.allclose(value, supcon(z @ rotation, y, temperature=0.2))


@pytest.mark.parametrize("height", [None, 3])
@pytest.mark.parametrize("divisor", ["anchors", "rows"])
def test_its_gradient_is_right(height, divisor, in_blocks):
    in_blocks(height, 7)
    z, y = batch(7, 3, 3, seed=2)
    anchors = torch.tensor([True, True, False, True, True, True, False])

    def loss(z: Tensor) -> Tensor:
        return supcon(z, y, temperature=0.5, anchors=anchors, divisor=divisor)

    assert torch.autograd.gradcheck(loss, z.requires_grad_())


def test_shared_cosines_give_the_same_value_and_gradient():
    z, y = batch(9, 4, 3)
    first, second = z.clone().requires_grad_(), z.clone().requires_grad_()
    plain = supcon(first, y, temperature=0.1)
    shared = kernels.supcon(second, y, 0.1, cosines=kernels.cosines(second))
    plain.backward()
    shared.backward()
    assert torch.allclose(plain, shared)
    assert torch.allclose(first.grad, second.grad)


def test_labels_of_any_integer_type_work():
    z, y = batch(8, 4, 3)
    value = supcon(z, y, temperature=0.5)
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        assert torch.equal(supcon(z, y.to(dtype), temperature=0.5), value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"z": torch.eye(3)[0]}, ValueError, r"z must have shape \(N, D\)"),
        ({"z": torch.eye(3).long()}, TypeError, "z must be floating point"),
        ({"z": 2 * torch.eye(3)}, ValueError, "row 0 has length 2"),
        ({"y": torch.tensor([0, 1])}, ValueError, r"y must have shape \(3,\)"),
        ({"y": torch.tensor([0.0, 1.0, 1.0])}, TypeError, "integer labels"),
        ({"y": torch.tensor([True, False, True])}, TypeError, "integer labels"),
        ({"temperature": 0.0}, ValueError, "temperature must be greater than 0"),
        ({"base_temperature": -1.0}, ValueError, "base_temperature must be greater than 0"),
        ({"anchors": torch.tensor([True])}, ValueError, "anchors must have shape"),
        ({"anchors": torch.tensor([1, 0, 1])}, TypeError, "boolean mask"),
        ({"divisor": "pairs"}, ValueError, "anchors, rows"),
        ({"reduction": "max"}, ValueError, "mean, sum, none"),
    ],
)
def test_wrong_arguments_are_explained(change, error, message):
    arguments = {"z": torch.eye(3), "y": torch.tensor([0, 0, 1]), "temperature": 0.1} | change
    with pytest.raises(error, match=message):
        supcon(arguments.pop("z"), arguments.pop("y"), **arguments)
