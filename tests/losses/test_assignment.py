import math

import pytest
import torch

from gplasc.geometry import nonnegative_frame, orthonormal_frame, simplex_etf
from gplasc.losses import assignment_loss, unit_rows


def rows(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow(features: torch.Tensor, labels: list[int], places: torch.Tensor, temperature: float) -> float:
    """Mean over rows of the cross-entropy whose scores know how many rows each place has, one after the other."""
    terms = []
    for row, own in zip(features, labels, strict=True):
        cosines = [float(row @ place) / math.sqrt(float(row @ row)) for place in places]
        scores = [
            math.exp(cosine / temperature) * max(labels.count(place), 0.5)
            for place, cosine in enumerate(cosines)
        ]
        terms.append(-math.log(scores[own] / sum(scores)))
    return sum(terms) / len(terms)


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


def test_rare_classes_compete_on_equal_terms():
    """Features between two places have equal scores there; the frequent class must then not win the softmax."""
    places = torch.eye(2)
    between, labels = torch.ones(10, 2).requires_grad_(), torch.tensor([0] * 9 + [1])
    assignment_loss(between, labels, places).backward()
    assert between.grad is not None
    share = torch.tensor(0.9)  # what the softmax gives to the frequent class: its share of the rows
    rare, frequent = between.grad[9].norm(), between.grad[0].norm()
    assert (rare / frequent).item() == pytest.approx((share / (1 - share)).item(), rel=1e-4)


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
    assert loss.item() == pytest.approx(math.log(2.5), rel=1e-6)  # places with 1, 1 and 0.5 rows
    assert zeros.grad.isfinite().all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"features": [[1.0]]}, TypeError, r"features must be a torch\.Tensor, got list"),
        ({"labels": torch.tensor([0.0, 1.0])}, TypeError, "labels must hold integer labels"),
        ({"labels": torch.tensor([0])}, ValueError, r"labels must have shape \(2,\)"),
        ({"labels": torch.tensor([0, 3])}, ValueError, r"labels must be in \[0, 3\), .* got 0 to 3"),
        ({"labels": torch.tensor([-1, 1])}, ValueError, r"labels must be in \[0, 3\), .* got -1 to 1"),
        ({"places": torch.eye(5)}, ValueError, r"places must have shape \(P, 4\)"),
        ({"places": torch.eye(4)[:0]}, ValueError, "P >= 1"),
        ({"places": 2 * torch.eye(4)}, ValueError, "rows of length 1"),
        ({"temperature": 0.0}, ValueError, "temperature must be greater than 0"),
    ],
)
def test_wrong_arguments_are_explained(change, error, message):
    arguments = {"features": torch.ones(2, 4), "labels": torch.tensor([0, 1]), "places": torch.eye(4)[:3]}
    with pytest.raises(error, match=message):
        assignment_loss(**(arguments | change))
