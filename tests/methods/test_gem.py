import pytest
import torch

from gplasc.methods import gem
from gplasc.methods.gem import _satisfy


def projected_descent(gradient, constraints, margin, ridge, steps=50_000):
    """The dual by brute force."""
    matrix = constraints @ constraints.T + ridge * torch.eye(len(constraints), dtype=gradient.dtype)
    linear = constraints @ gradient
    v = torch.full((len(constraints),), margin, dtype=gradient.dtype)
    rate = 1 / float(torch.linalg.matrix_norm(matrix, 2))
    for _ in range(steps):
        v = (v - rate * (matrix @ v + linear)).clamp(min=margin)
    return gradient + constraints.T @ v


@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_equals_the_dual_by_brute_force(margin):
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        constraints = torch.randn(4, 30, generator=generator, dtype=torch.float64)
        gradient = torch.randn(30, generator=generator, dtype=torch.float64) - constraints[0]
        found = _satisfy(gradient, constraints, margin=margin, ridge=1e-3)
        expected = projected_descent(gradient, constraints, margin, 1e-3, steps=5000)
        assert torch.allclose(found, expected, atol=1e-6)


def test_all_constraints_hold_afterwards():
    generator = torch.Generator().manual_seed(0)
    for count in (1, 2, 5, 9):
        constraints = torch.randn(count, 200, generator=generator)
        gradient = -constraints.sum(0) + torch.randn(200, generator=generator)
        found = _satisfy(gradient, constraints, margin=0.0, ridge=1e-3)
        # Up to the ridge times the dual variables, which are about 1 here.
        assert (constraints @ found).min() > -2e-2
        assert (constraints @ gradient).min() < -1


def test_a_gradient_that_hurts_nobody_is_left_alone():
    constraints = torch.eye(3)
    gradient = torch.tensor([1.0, 0.0, 2.0])
    assert torch.equal(_satisfy(gradient, constraints, margin=0.5, ridge=1e-3), gradient)


def test_one_constraint_is_a_projection():
    gradient, past = torch.tensor([1.0, -2.0]), torch.tensor([[0.0, 1.0]])
    found = _satisfy(gradient, past, margin=0.0, ridge=1e-9)
    assert torch.allclose(found, torch.tensor([1.0, 0.0]), atol=1e-6)


def test_each_past_task_is_a_constraint_of_the_step(learned, next_batch, monkeypatch):
    learner = learned("gem", task=2, **{"gem.margin": 0.0, "gem.ridge": 1e-9})
    seen = []

    def watch(gradient, constraints, **options):
        seen.append((gradient, constraints))
        return _satisfy(gradient, constraints, **options)

    monkeypatch.setattr(gem, "_satisfy", watch)
    learner.step(next_batch(learner))
    gradient, constraints = seen[-1]
    assert constraints.shape == (2, len(gradient))
    assert (constraints @ learner.ctx.flat_gradient()).min() > -1e-3


def test_the_memory_is_class_balanced(learned):
    learner = learned("gem")
    counts = torch.bincount(learner.ctx.memory["y"], minlength=6)
    assert int(counts.sum()) == 9
    assert int(counts.max()) <= 3
    assert not learner.method.forwards_memory
