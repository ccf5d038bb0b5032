import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gplasc.geometry import region, simplex_etf
from gplasc.losses import position_loss, range_loss, unit_rows
from gplasc.losses.kernels import center_cosine, cosines, range_pairs, task_center

FORMS = {
    "hinge": lambda x: max(0.0, x),
    "softplus": lambda x: math.log(1 + math.exp(x)),
    "leaky_relu": lambda x: x if x > 0 else 0.1 * x,
    "squared_hinge": lambda x: max(0.0, x) ** 2,
}


def batch(rows: int, dim: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = unit_rows(torch.randn(rows, dim, dtype=torch.float64, generator=generator))
    return z, torch.randint(0, classes, (rows,), generator=generator)


def k_simplex(vertex: Tensor, classes: int, k: float) -> Tensor:
    """Class means with pairwise cosine k, centered on the vertex (d,): (C, d)."""
    dim = len(vertex)
    norm_square = (1 + (classes - 1) * k) / classes
    # An orthonormal basis whose first column is the vertex; the simplex lies in the others.
    basis, _ = torch.linalg.qr(torch.cat([vertex[:, None], torch.eye(dim, dtype=torch.float64)], dim=1))
    around = simplex_etf(classes, classes - 1) @ basis[:, 1:classes].T
    return math.sqrt(norm_square) * vertex + math.sqrt(max(0.0, 1 - norm_square)) * around


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("height", [None, 4])
@pytest.mark.parametrize("k", [-0.4, 0.0, 0.7])
def test_range_is_the_double_loop(form, height, k, in_blocks):
    in_blocks(height, 10)
    z, y = batch(10, 3, 3, seed=1)
    values = [
        (k - float(z[i] @ z[j]), FORMS[form](k - float(z[i] @ z[j])))
        for i in range(10)
        for j in range(10)
        if y[i] != y[j]
    ]
    total = sum(value for _, value in values)
    active = sum(x > 0 for x, _ in values)
    for reduction, expected in (("mean", total / len(values)), ("sum", total)):
        settings = {"form": form, "reduction": reduction}
        loss, fraction = range_pairs(z, y, k, **settings)
        assert loss.item() == pytest.approx(expected)
        assert fraction.item() == pytest.approx(active / len(values))
        assert range_loss(z, y, torch.tensor(k, dtype=torch.float64), **settings).item() == pytest.approx(
            expected
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("height", [None, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_of_range_is_right(form, height, reduction, in_blocks):
    in_blocks(height, 6)
    z, y = batch(6, 3, 3, seed=3)

    def loss(z: Tensor) -> Tensor:
        return range_loss(z, y, 0.3, form=form, reduction=reduction)

    assert torch.autograd.gradcheck(loss, z.requires_grad_())


@given(seed=st.integers(0, 10_000), k=st.floats(-1, 1), rows=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_the_hinge_is_zero_exactly_when_every_pair_of_classes_satisfies_it(seed, k, rows):
    z, y = batch(rows, 2, 2, seed)
    satisfied = all(float(z[i] @ z[j]) >= k for i in range(rows) for j in range(rows) if y[i] != y[j])
    for form in ("hinge", "squared_hinge"):
        loss, fraction = range_pairs(z, y, k, form=form)
        assert (fraction.item() == 0) == satisfied
        assert (loss.item() == 0) == satisfied


@given(seed=st.integers(0, 10_000), form=st.sampled_from(list(FORMS)))
@settings(max_examples=30, deadline=None)
def test_range_ignores_the_order_of_rows_the_names_of_classes_and_rotations(seed, form):
    z, y = batch(9, 4, 3, seed)
    order = torch.randperm(9)
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    value = range_loss(z, y, 0.4, form=form)
    assert torch.allclose(value, range_loss((z @ rotation)[order], 5 - 2 * y[order], 0.4, form=form))


@given(
    classes=st.integers(2, 6), tasks=st.integers(2, 8), margin=st.floats(0, 0.9), above=st.floats(0.01, 0.5)
)
@settings(max_examples=40, deadline=None)
def test_at_the_k_simplex_range_and_scaled_position_vanish_together(classes, tasks, margin, above):
    """The value at the simplex is the closed form: 0 at its own k, and the difference for a larger one."""
    found = region(tasks, classes, margin)
    vertices = simplex_etf(tasks, 16)
    y = torch.arange(classes).repeat(3)
    z = k_simplex(vertices[tasks // 2], classes, found.k)[y]
    assert range_loss(z, y, found.k).item() == pytest.approx(0, abs=1e-12)
    larger = min(1.0, found.k + above)
    assert range_loss(z, y, larger).item() == pytest.approx(larger - found.k, abs=1e-9)
    squared = range_loss(z, y, larger, form="squared_hinge").item()
    assert squared == pytest.approx((larger - found.k) ** 2, abs=1e-9)
    softplus = range_loss(z, y, larger, form="softplus").item()
    assert softplus == pytest.approx(math.log1p(math.exp(larger - found.k)), abs=1e-9)

    vertex = vertices[tasks // 2]
    scaled = position_loss(z, y, vertex, target="scaled", norm=found.center_norm).item()
    assert scaled == pytest.approx(0, abs=1e-12)
    unit = position_loss(z, y, vertex).item()
    # A norm near 0 is the root of a rounded 0, so it is known to 1e-8 only.
    assert unit == pytest.approx((1 - found.center_norm) ** 2, abs=1e-7)
    assert task_center(z, y).norm().item() == pytest.approx(found.center_norm, abs=1e-7)
    if found.center_norm > 1e-3:
        assert center_cosine(task_center(z, y), vertex).item() == pytest.approx(1, abs=1e-9)


def slow_center(z: Tensor, y: Tensor) -> Tensor:
    means = []
    for label in sorted(set(y.tolist())):
        rows = [z[i] for i in range(len(z)) if y[i] == label]
        means.append(sum(rows) / len(rows))
    return sum(means) / len(means)


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 30), classes=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_the_center_is_the_mean_of_class_means(seed, rows, classes):
    z, y = batch(rows, 5, classes, seed)
    assert torch.allclose(task_center(z, y), slow_center(z, y))
    assert torch.allclose(task_center(z, (1000 - 7 * y).int()), slow_center(z, y))


def test_the_center_of_equal_classes_is_the_plain_mean_and_of_nothing_the_origin():
    z, _ = batch(12, 4, 1)
    assert torch.allclose(task_center(z, torch.arange(3).repeat(4)), z.mean(dim=0))
    for dtype in (torch.int8, torch.uint8, torch.int16):
        assert torch.allclose(task_center(z, torch.arange(3).repeat(4).to(dtype)), z.mean(dim=0))
    assert torch.equal(task_center(z[:0], torch.empty(0, dtype=torch.int64)), torch.zeros(4).double())


def test_position_is_the_double_loop():
    z, y = batch(11, 6, 3, seed=5)
    vertex = simplex_etf(4, 6)[1]
    center = slow_center(z, y)
    unit = sum((float(center[d]) - float(vertex[d])) ** 2 for d in range(6))
    scaled = sum((float(center[d]) - 0.7 * float(vertex[d])) ** 2 for d in range(6))
    dot = sum(float(center[d]) * float(vertex[d]) for d in range(6))
    length = math.sqrt(sum(float(center[d]) ** 2 for d in range(6)))
    assert position_loss(z, y, vertex).item() == pytest.approx(unit)
    found = position_loss(z, y, vertex, target="scaled", norm=0.7)
    assert found.item() == pytest.approx(scaled)
    assert center_cosine(center, vertex).item() == pytest.approx(dot / length)


@pytest.mark.parametrize("target", ["unit", "scaled"])
def test_the_gradient_of_position_is_right(target):
    z, y = batch(6, 4, 2, seed=7)
    vertex = simplex_etf(3, 4)[0]
    assert torch.autograd.gradcheck(
        lambda z: position_loss(z, y, vertex, target=target, norm=0.6), z.requires_grad_()
    )


@given(seed=st.integers(0, 10_000), target=st.sampled_from(["unit", "scaled"]))
@settings(max_examples=20, deadline=None)
def test_position_ignores_the_order_of_rows_and_copies_of_a_class(seed, target):
    z, y = batch(8, 4, 3, seed)
    vertex = simplex_etf(3, 4)[0]
    value = position_loss(z, y, vertex, target=target, norm=0.5)
    order = torch.randperm(8)
    assert torch.allclose(value, position_loss(z[order], y[order], vertex, target=target, norm=0.5))
    again = torch.cat([torch.arange(8), (y == y[0]).nonzero().flatten()])
    assert torch.allclose(value, position_loss(z[again], y[again], vertex, target=target, norm=0.5))


def test_shared_cosines_give_the_same_value_and_gradient():
    z, y = batch(9, 4, 3)
    z.requires_grad_()
    plain, shared = range_loss(z, y, 0.5), range_pairs(z, y, 0.5, cosines=cosines(z)).loss
    assert torch.allclose(plain, shared)
    assert torch.allclose(torch.autograd.grad(plain, z)[0], torch.autograd.grad(shared, z)[0])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"k": 1.5}, ValueError, r"k is a cosine and must be in \[-1, 1\]"),
        ({"k": float("nan")}, ValueError, "k is a cosine"),
        ({"form": "cubic"}, ValueError, "hinge, softplus, leaky_relu, squared_hinge"),
        ({"reduction": "none"}, ValueError, "mean, sum"),
        ({"z": 3 * torch.eye(3)}, ValueError, "length 3"),
        ({"y": torch.zeros(4).long()}, ValueError, "y must have shape"),
        ({"y": torch.zeros(3)}, TypeError, "integer labels"),
    ],
)
def test_wrong_arguments_of_range_are_explained(change, error, message):
    arguments = {"z": torch.eye(3), "y": torch.arange(3), "k": 0.1} | change
    with pytest.raises(error, match=message):
        range_loss(**arguments)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"center": torch.eye(4)[0]}, ValueError, "center must have shape"),
        ({"center": torch.eye(3)}, ValueError, "center must have shape"),
        ({"target": "angle"}, ValueError, "unit, scaled"),
        ({"target": "scaled"}, ValueError, "needs norm"),
        ({"z": 3 * torch.eye(3)}, ValueError, "length 3"),
        ({"y": torch.zeros(3)}, TypeError, "integer labels"),
    ],
)
def test_wrong_arguments_of_position_are_explained(change, error, message):
    arguments = {"z": torch.eye(3), "y": torch.arange(3), "center": torch.eye(3)[0]} | change
    with pytest.raises(error, match=message):
        position_loss(**arguments)
