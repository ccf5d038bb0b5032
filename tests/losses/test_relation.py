import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gplasc.losses import kernels, prototype_relation_distillation, relation_distillation, unit_rows


def unit(rows: int, dim: int, seed: int = 0, dtype=torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return unit_rows(torch.randn(rows, dim, dtype=torch.float64, generator=generator)).to(dtype)


def softmax(values: list[float]) -> list[float]:
    weights = [math.exp(value - max(values)) for value in values]
    return [weight / sum(weights) for weight in weights]


def cross_entropy(target: list[float], model: list[float]) -> float:
    return -sum(q * math.log(p) for q, p in zip(target, model, strict=True))


def slow_ird(student: Tensor, teacher: Tensor, warm: float, cold: float) -> list[float]:
    losses = []
    for i in range(len(student)):
        others = [j for j in range(len(student)) if j != i]
        p = softmax([float(student[i] @ student[j]) / warm for j in others])
        q = softmax([float(teacher[i] @ teacher[j]) / cold for j in others])
        losses.append(cross_entropy(q, p))
    return losses


@pytest.mark.parametrize("height", [None, 4])
@pytest.mark.parametrize("seed", range(3))
def test_ird_is_the_double_loop(seed, height, in_blocks):
    in_blocks(height, 9)
    student, teacher = unit(9, 4, seed), unit(9, 6, seed + 50)
    settings = {"student_temperature": 0.2, "teacher_temperature": 0.1}
    rows = slow_ird(student, teacher, 0.2, 0.1)
    assert relation_distillation(student, teacher, **settings).item() == pytest.approx(sum(rows) / 9)
    total = relation_distillation(student, teacher, reduction="sum", **settings)
    assert total.item() == pytest.approx(sum(rows))
    each = relation_distillation(student, teacher, reduction="none", **settings)
    assert torch.allclose(each, torch.tensor(rows, dtype=torch.float64))


def test_ird_of_one_network_with_itself_is_the_entropy_and_at_rest():
    z = unit(8, 5).requires_grad_()
    loss = relation_distillation(z, z, student_temperature=0.3, teacher_temperature=0.3)
    entropy, points = 0.0, z.detach()
    for i in range(8):
        p = softmax([float(points[i] @ points[j]) / 0.3 for j in range(8) if j != i])
        entropy += cross_entropy(p, p) / 8
    assert loss.item() == pytest.approx(entropy)
    loss.backward()
    assert torch.allclose(z.grad, torch.zeros_like(z), atol=1e-12)


def test_the_teacher_gets_no_gradient():
    student, teacher = unit(5, 3).requires_grad_(), unit(5, 3, 1).requires_grad_()
    relation_distillation(
        student,
        teacher,
        student_temperature=0.2,
        teacher_temperature=0.2,
    ).backward()
    assert student.grad.abs().sum() > 0
    assert teacher.grad is None


@pytest.mark.parametrize("height", [None, 2])
def test_the_gradient_of_ird_is_right(height, in_blocks):
    in_blocks(height, 6)
    teacher = unit(6, 3, 1)

    def loss(student: Tensor) -> Tensor:
        return relation_distillation(student, teacher, student_temperature=0.5, teacher_temperature=0.2)

    assert torch.autograd.gradcheck(loss, unit(6, 3).requires_grad_())


def test_shared_cosines_change_nothing():
    student, teacher = unit(7, 3).requires_grad_(), unit(7, 3, 1)
    temperatures = {"student_temperature": 0.2, "teacher_temperature": 0.01}
    plain = relation_distillation(student, teacher, **temperatures)
    (expected,) = torch.autograd.grad(plain, student)
    for shared_cosines in (
        {"cosines": student @ student.T},
        {"teacher_cosines": teacher @ teacher.T},
        {"cosines": student @ student.T, "teacher_cosines": teacher @ teacher.T},
    ):
        shared = kernels.relation(student, teacher, **temperatures, **shared_cosines)
        assert torch.allclose(plain, shared)
        assert torch.allclose(expected, torch.autograd.grad(shared, student)[0])


@given(seed=st.integers(0, 10_000), rows=st.integers(2, 15))
@settings(max_examples=30, deadline=None)
def test_ird_ignores_the_order_of_rows_and_is_smallest_when_relations_agree(seed, rows):
    student, teacher = unit(rows, 4, seed), unit(rows, 4, seed + 1)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    temperatures = {"student_temperature": 0.2, "teacher_temperature": 0.2}
    value = relation_distillation(student, teacher, **temperatures)
    assert torch.allclose(value, relation_distillation(student[order], teacher[order], **temperatures))
    assert value >= relation_distillation(teacher, teacher, **temperatures) - 1e-12


def test_prd_is_the_double_loop():
    student, teacher, own, old = unit(7, 4), unit(7, 5, 1), unit(3, 4, 2), unit(3, 5, 3)
    expected = []
    for i in range(7):
        p = softmax([float(student[i] @ own[c]) / 0.2 for c in range(3)])
        q = softmax([float(teacher[i] @ old[c]) / 0.1 for c in range(3)])
        expected.append(cross_entropy(q, p))
    temperatures = {"student_temperature": 0.2, "teacher_temperature": 0.1}
    mean = prototype_relation_distillation(student, teacher, own, old, **temperatures)
    assert mean.item() == pytest.approx(sum(expected) / 7)
    each = prototype_relation_distillation(student, teacher, own, old, reduction="none", **temperatures)
    assert torch.allclose(each, torch.tensor(expected, dtype=torch.float64))
    total = prototype_relation_distillation(student, teacher, own, old, reduction="sum", **temperatures)
    assert total.item() == pytest.approx(sum(expected))


def test_the_length_of_the_teachers_prototypes_counts():
    student, teacher, own, old = (unit(n, 3, seed) for n, seed in ((4, 0), (4, 1), (2, 2), (2, 3)))
    temperatures = {"student_temperature": 0.3, "teacher_temperature": 0.2}
    longer = prototype_relation_distillation(student, teacher, own, 2 * old, **temperatures)
    sharper = prototype_relation_distillation(
        student, teacher, own, old, student_temperature=0.3, teacher_temperature=0.1
    )
    torch.testing.assert_close(longer, sharper)


def test_the_gradient_of_prd_reaches_features_and_prototypes_of_the_student_only():
    teacher, old = unit(5, 3, 1).requires_grad_(), unit(4, 3, 3).requires_grad_()

    def loss(student: Tensor, own: Tensor) -> Tensor:
        return prototype_relation_distillation(
            student, teacher, own, old, student_temperature=0.3, teacher_temperature=0.1
        )

    student, own = unit(5, 3).requires_grad_(), unit(4, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(loss, (student, own))
    loss(student, own).backward()
    assert own.grad.abs().sum() > 0
    assert teacher.grad is None
    assert old.grad is None


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_prd_ignores_the_order_of_rows_and_prototypes(seed):
    student, teacher, own, old = (
        unit(6, 4, seed),
        unit(6, 4, seed + 1),
        unit(3, 4, seed + 2),
        unit(3, 4, seed + 3),
    )
    temperatures = {"student_temperature": 0.2, "teacher_temperature": 0.1}
    value = prototype_relation_distillation(student, teacher, own, old, **temperatures)
    rows, classes = torch.randperm(6), torch.randperm(3)
    again = prototype_relation_distillation(
        student[rows], teacher[rows], own[classes], old[classes], **temperatures
    )
    assert torch.allclose(value, again)


@pytest.mark.parametrize(("rows", "classes"), [(0, 2), (3, 0), (0, 0), (1, 1), (4, 1)])
def test_prd_with_at_most_one_prototype_is_zero_and_part_of_the_graph(rows, classes):
    student, prototypes = unit(rows, 3).requires_grad_(), unit(classes, 3, 1)
    cold = {"student_temperature": 0.01, "teacher_temperature": 0.01}
    loss = prototype_relation_distillation(student, student, prototypes, prototypes, **cold)
    (gradient,) = torch.autograd.grad(loss, student)
    assert loss.item() == 0
    assert not gradient.any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"student": torch.eye(2)}, ValueError, r"teacher must have shape \(2, E\)"),
        ({"teacher": 3 * torch.eye(3)}, ValueError, "teacher must have rows of length 1"),
        ({"student": torch.eye(3).long()}, TypeError, "student must be floating point"),
        ({"student_temperature": 0.0}, ValueError, "student_temperature"),
        ({"teacher_temperature": -0.1}, ValueError, "teacher_temperature"),
        ({"reduction": "median"}, ValueError, "mean, sum, none"),
    ],
)
def test_wrong_arguments_of_ird_are_explained(change, error, message):
    arguments = {
        "student": torch.eye(3),
        "teacher": torch.eye(3),
        "student_temperature": 0.2,
        "teacher_temperature": 0.1,
    } | change
    with pytest.raises(error, match=message):
        relation_distillation(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"student": torch.eye(2)}, r"teacher must have shape \(2, E\)"),
        ({"teacher_prototypes": torch.eye(3)[:2]}, r"teacher_prototypes must have shape \(3, 3\)"),
        ({"student_prototypes": torch.eye(4)[:3]}, r"student_prototypes must have shape \(C, 3\)"),
        ({"student_prototypes": 2 * torch.eye(3)}, "student_prototypes must have rows of length 1"),
        ({"teacher_temperature": 0.0}, "teacher_temperature"),
    ],
)
def test_wrong_arguments_of_prd_are_explained(change, message):
    arguments = {
        "student": torch.eye(3),
        "teacher": torch.eye(3),
        "student_prototypes": torch.eye(3),
        "teacher_prototypes": torch.eye(3),
        "student_temperature": 0.2,
        "teacher_temperature": 0.1,
    } | change
    with pytest.raises(ValueError, match=message):
        prototype_relation_distillation(**arguments)
