import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gplasc.losses import FeatureProjector, feature_distillation, projector_distillation


def features(rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow(student: Tensor, teacher: Tensor, normalize: bool) -> list[float]:
    losses = []
    for i in range(len(student)):
        total = 0.0
        own, old = 1.0, 1.0
        if normalize:
            own = math.sqrt(sum(float(value) ** 2 for value in student[i]))
            old = math.sqrt(sum(float(value) ** 2 for value in teacher[i]))
        for d in range(student.shape[1]):
            total += (float(student[i, d]) / own - float(teacher[i, d]) / old) ** 2
        losses.append(total)
    return losses


@pytest.mark.parametrize("normalize", [True, False])
def test_it_is_the_double_loop(normalize):
    student, teacher = features(6, 4), features(6, 4, 1)
    expected = slow(student, teacher, normalize)
    options = {"normalize": normalize}
    assert feature_distillation(student, teacher, **options).item() == pytest.approx(sum(expected) / 6)
    total = feature_distillation(student, teacher, reduction="sum", **options)
    assert total.item() == pytest.approx(sum(expected))
    each = feature_distillation(student, teacher, reduction="none", **options)
    assert torch.allclose(each, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("normalize", [True, False])
def test_its_gradient_is_right_and_only_the_students(normalize):
    teacher = features(5, 3, 1).requires_grad_()
    student = features(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: feature_distillation(z, teacher, normalize=normalize), student)
    feature_distillation(student, teacher, normalize=normalize).backward()
    assert teacher.grad is None


@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 10))
@settings(max_examples=30, deadline=None)
def test_length_and_order_of_rows_do_not_matter_and_equal_features_cost_nothing(seed, scale):
    student, teacher = features(5, 4, seed), features(5, 4, seed + 1)
    order = torch.randperm(5)
    value = feature_distillation(student, teacher)
    assert torch.allclose(value, feature_distillation(scale * student[order], teacher[order]))
    assert 0 <= value <= 4
    assert feature_distillation(student, scale * student).item() == pytest.approx(0, abs=1e-12)


def test_a_row_of_zeros_has_no_direction_and_its_gradient_is_not_one_over_eps():
    student = torch.zeros(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(feature_distillation(student, torch.ones(3, 4)), student)
    assert gradient.abs().max().item() < 10


@pytest.mark.parametrize("sigmoid", [True, False])
def test_the_projector_is_two_layers_with_a_narrow_code(sigmoid):
    projector = FeatureProjector(6, 2, sigmoid=sigmoid).double()
    x = features(3, 6)
    code = (x @ projector.encoder.weight.T + projector.encoder.bias).clamp(min=0)
    expected = code @ projector.decoder.weight.T + projector.decoder.bias
    if sigmoid:
        expected = 1 / (1 + torch.exp(-expected))
    assert code.shape == (3, 2)
    assert torch.allclose(projector(x), expected)


def test_the_projector_is_drawn_from_its_generator_alone():
    state = torch.get_rng_state()
    first = FeatureProjector(16, generator=torch.Generator().manual_seed(1))
    again = FeatureProjector(16, generator=torch.Generator().manual_seed(1))
    other = FeatureProjector(16, generator=torch.Generator().manual_seed(2))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first.encoder.weight, again.encoder.weight)
    assert not torch.equal(first.encoder.weight, other.encoder.weight)
    assert first.encoder.out_features == 2
    assert first.encoder.weight.abs().max() <= 1 / 4


def test_projector_distillation_is_the_double_loop_and_trains_student_and_projector():
    student, teacher = features(5, 4).requires_grad_(), features(5, 4, 1).requires_grad_()
    projector = FeatureProjector(4, 2).double()
    expected = slow(student.detach(), projector(teacher).detach(), False)
    loss = projector_distillation(student, teacher, projector)
    assert loss.item() == pytest.approx(sum(expected) / (5 * 4))
    total = projector_distillation(student, teacher, projector, reduction="sum")
    assert total.item() == pytest.approx(sum(expected) / 4)
    loss.backward()
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0
    assert all(parameter.grad.abs().sum() > 0 for parameter in projector.parameters())
    assert torch.autograd.gradcheck(lambda z: projector_distillation(z, teacher, projector), student)


def test_the_projector_learns_to_follow_a_moved_representation():
    # Two degrees of freedom pass through a code of six; eight independent ones could not.
    generator = torch.Generator().manual_seed(0)
    teacher = (torch.randn(64, 2, generator=generator) @ torch.randn(2, 8, generator=generator)).sigmoid()
    student = 1 - teacher
    projector = FeatureProjector(8, 6)
    optimizer = torch.optim.Adam(projector.parameters(), lr=0.02)
    before = projector_distillation(student, teacher, projector).item()
    for _ in range(300):
        loss = projector_distillation(student, teacher, projector)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3 * before


def test_wrong_arguments_are_explained():
    for shape in ((2, 4), (3, 5)):
        with pytest.raises(ValueError, match=r"teacher must have shape \(3, 4\)"):
            feature_distillation(features(3, 4), features(*shape))
    with pytest.raises(TypeError, match="teacher must be floating point"):
        feature_distillation(features(3, 4), features(3, 4).long())
    with pytest.raises(ValueError, match="mean, sum, none"):
        feature_distillation(features(3, 4), features(3, 4), reduction="max")
    for code in (0, 4, 9):
        with pytest.raises(ValueError, match="under-complete"):
            FeatureProjector(4, code)
