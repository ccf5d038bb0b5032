"""Non-negative quadratic programs against projected descent and the optimality conditions."""

import torch

from gplasc.memory.quadratic import minimize_non_negative


def problem(size, seed):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    matrix = root @ root.T + 0.5 * torch.eye(size, dtype=torch.float64)
    return matrix, torch.randn(size, generator=generator, dtype=torch.float64)


def test_satisfies_the_optimality_conditions():
    for seed in range(20):
        matrix, linear = problem(5, seed)
        w = minimize_non_negative(matrix, linear)
        slope = matrix @ w - linear
        assert (w >= 0).all()
        assert (slope > -1e-9).all()  # no unknown wants to grow
        assert torch.dot(w, slope).abs() < 1e-9  # and none that is above 0 wants to shrink


def test_equals_projected_descent():
    matrix, linear = problem(4, 7)
    slow = torch.zeros(4, dtype=torch.float64)
    for _ in range(20_000):
        slow = (slow - 0.02 * (matrix @ slow - linear)).clamp(min=0)
    assert torch.allclose(minimize_non_negative(matrix, linear), slow, atol=1e-8)
