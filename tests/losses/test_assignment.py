import math

import pytest
import torch

from gplasc.geometry import nonnegative_frame, orthonormal_frame, simplex_etf
from gplasc.losses import assignment_loss, unit_rows


def rows(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow(features: torch.Tensor, tasks: list[int], vertices: torch.Tensor, temperature: float) -> float:
    """Sum over tasks, rows and vertices, one after the other."""
    means = []
    for task in sorted(set(tasks)):
        terms = []
        for row, own in zip(features, tasks, strict=True):
            if own == task:
                cosines = [float(row @ v) / math.sqrt(float(row @ row)) for v in vertices]
                total = sum(math.exp(c / temperature) for c in cosines)
                terms.append(math.log(total) - cosines[task] / temperature)
        means.append(sum(terms) / len(terms))
    return sum(means) / len(means)


@pytest.mark.parametrize("frame", [simplex_etf, orthonormal_frame, nonnegative_frame])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_it_equals_its_definition(frame, temperature):
    vertices, tasks = frame(4, 8), [0, 3, 3, 1, 3, 0, 3]
    found = assignment_loss(rows(7, 8), torch.tensor(tasks), vertices, temperature=temperature)
    assert found.item() == pytest.approx(slow(rows(7, 8), tasks, vertices, temperature))


def test_the_gradient_is_right():
    vertices, tasks = simplex_etf(3, 5), torch.tensor([0, 2, 2, 0, 0])
    features = rows(5, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: assignment_loss(x, tasks, vertices, temperature=0.5), features)


def test_trained_vertices_receive_a_gradient():
    free = rows(3, 5, seed=1).requires_grad_()
    assignment_loss(rows(4, 5), torch.tensor([0, 1, 2, 2]), unit_rows(free)).backward()
    assert free.grad is not None
    assert float(free.grad.abs().sum()) > 0


def test_repeating_the_rows_of_one_task_changes_nothing():
    vertices, tasks, features = simplex_etf(3, 5), torch.tensor([0, 1, 2]), rows(3, 5)
    more = assignment_loss(features[[0, 1, 1, 1, 2]], tasks[[0, 1, 1, 1, 2]], vertices)
    assert more.item() == pytest.approx(assignment_loss(features, tasks, vertices).item())


def test_the_scale_of_the_features_does_not_matter_and_the_vertices_minimize_it():
    vertices, tasks = simplex_etf(4, 6), torch.arange(4)
    best = assignment_loss(7 * vertices, tasks, vertices, temperature=0.5)
    assert best.item() == pytest.approx(assignment_loss(vertices, tasks, vertices, temperature=0.5).item())
    # The cosines of the simplex are -1/3.
    assert best.item() == pytest.approx(math.log(1 + 3 * math.exp(-(4 / 3) / 0.5)))
    for seed in range(20):
        assert assignment_loss(rows(4, 6, seed), tasks, vertices, temperature=0.5) > best


def test_a_single_vertex_costs_nothing_and_rows_of_zeros_are_between_all():
    assert assignment_loss(rows(3, 4), torch.zeros(3).long(), simplex_etf(1, 4)).item() == pytest.approx(0)
    zeros = torch.zeros(2, 4).requires_grad_()
    loss = assignment_loss(zeros, torch.tensor([0, 1]), simplex_etf(3, 4))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(3), rel=1e-6)
    assert zeros.grad.isfinite().all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"features": [[1.0]]}, TypeError, r"features must be a torch\.Tensor, got list"),
        ({"tasks": torch.tensor([0.0, 1.0])}, TypeError, "tasks must hold integer labels"),
        ({"tasks": torch.tensor([0])}, ValueError, r"tasks must have shape \(2,\)"),
        ({"tasks": torch.tensor([0, 3])}, ValueError, r"tasks must be in \[0, 3\), .* got 0 to 3"),
        ({"tasks": torch.tensor([-1, 1])}, ValueError, r"tasks must be in \[0, 3\), .* got -1 to 1"),
        ({"vertices": torch.eye(5)}, ValueError, r"vertices must have shape \(T, 4\)"),
        ({"vertices": torch.eye(4)[:0]}, ValueError, "T >= 1"),
        ({"vertices": 2 * torch.eye(4)}, ValueError, "rows of length 1"),
        ({"temperature": 0.0}, ValueError, "temperature must be greater than 0"),
    ],
)
def test_wrong_arguments_are_explained(change, error, message):
    arguments = {"features": torch.ones(2, 4), "tasks": torch.tensor([0, 1]), "vertices": torch.eye(4)[:3]}
    with pytest.raises(error, match=message):
        assignment_loss(**(arguments | change))
