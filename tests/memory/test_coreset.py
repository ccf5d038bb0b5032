"""The gradient coreset against gradients that are written down, and pursuits whose answer is known."""

import itertools

import pytest
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gplasc.memory.coreset import _class_budgets, _last_layer_gram, _matching_pursuit, select_coreset


def test_gram_equals_that_of_autograd():
    generator = torch.Generator().manual_seed(0)
    features, y = torch.randn(6, 5, generator=generator).double(), torch.tensor([0, 1, 2, 0, 1, 2])
    layer = nn.Linear(5, 3).double()
    rows = []
    for index in range(6):
        loss = nn.functional.cross_entropy(layer(features[index : index + 1]), y[index : index + 1])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(layer.parameters()))]))
    gradients = torch.stack(rows)
    errors = layer(features).softmax(1).detach() - nn.functional.one_hot(y, 3)
    assert torch.allclose(_last_layer_gram(errors, features), gradients @ gradients.T, atol=1e-12)


def test_recovers_an_exact_sparse_combination():
    generator = torch.Generator().manual_seed(1)
    vectors = nn.functional.normalize(torch.randn(40, 200, generator=generator).double(), dim=1)
    weights = torch.zeros(40, dtype=torch.float64)
    weights[[3, 17, 28]] = torch.tensor([2.0, 0.7, 1.3], dtype=torch.float64)
    target = weights @ vectors
    index, found = _matching_pursuit(vectors @ vectors.T, vectors @ target, 10)
    # What is left after three steps is rounding: whatever is taken on top has no weight to speak of.
    recovered = torch.zeros(40, dtype=torch.float64)
    recovered[index] = found
    assert torch.allclose(recovered, weights, atol=1e-6)
    assert sorted(index[:3].tolist()) == [3, 17, 28]


def test_weights_are_non_negative_and_fit_as_well_as_projected_descent():
    generator = torch.Generator().manual_seed(2)
    vectors = torch.randn(12, 6, generator=generator).double()
    target = torch.randn(6, generator=generator).double()
    index, found = _matching_pursuit(vectors @ vectors.T, vectors @ target, 12, ridge=0.1)
    assert (found > 0).all()
    chosen = vectors[index]
    slow = torch.zeros(len(index), dtype=torch.float64)
    for _ in range(20_000):
        slow = (slow - 0.01 * (chosen @ (slow @ chosen - target) + 0.1 * slow)).clamp(min=0)
    assert torch.allclose(found, slow, atol=1e-4)


def test_stops_when_nothing_helps():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    index, _ = _matching_pursuit(vectors @ vectors.T, vectors @ torch.tensor([-1.0, -2.0]), 2)
    assert len(index) == 0


def test_equal_vectors_do_not_break_it():
    vectors = torch.ones(5, 3)
    index, found = _matching_pursuit(vectors @ vectors.T, vectors @ torch.full((3,), 4.0), 5)
    assert float(found.sum()) == pytest.approx(4.0, rel=1e-4)
    assert len(index) >= 1


@given(st.lists(st.integers(1, 50) | st.integers(1, 3), min_size=1, max_size=8), st.integers(0, 60))
def test_budgets_are_exact_and_leave_no_class_out_while_they_last(sizes, budget):
    counts = torch.tensor(sizes)
    given_out = _class_budgets(counts, budget)
    assert int(given_out.sum()) == min(budget, sum(sizes))
    assert (given_out <= counts).all()
    assert (given_out >= 0).all()
    if budget >= len(sizes):
        assert (given_out >= 1).all()


def test_the_chosen_few_stand_for_all():
    generator = torch.Generator().manual_seed(4)
    y = torch.arange(60) % 2
    # Three directions a class, so that a few weighted samples can carry the whole sum.
    centers = torch.randn(6, 5, generator=generator)
    kind = torch.randint(3, (60,), generator=generator) + 3 * y
    features = torch.relu(centers[kind] + 0.01 * torch.randn(60, 5, generator=generator))
    errors = nn.functional.one_hot(kind % 4, 4) - 0.25
    weights = torch.rand(60, generator=generator) + 0.5
    index, found = select_coreset(errors, features, y, weights, 10, ridge=0.0, generator=generator)
    assert len(index) == len(index.unique()) == 10
    assert torch.bincount(y[index]).tolist() == [5, 5]

    def total(rows, w):
        gradients = torch.einsum(
            "nc,nd->ncd", errors[rows], torch.cat([features, torch.ones(60, 1)], 1)[rows]
        )
        return (w.view(-1, 1, 1) * gradients).sum(0)

    everything = total(torch.arange(60), weights)
    random = torch.randperm(60, generator=generator)[:10]
    spread = total(random, torch.full((10,), float(weights.sum()) / 10))
    # Samples added at random, of weight 1, are part of the answer, so it is near and not exact.
    assert (total(index, found) - everything).norm() < 0.2 * everything.norm()
    assert (total(index, found) - everything).norm() < (spread - everything).norm()


def test_everything_is_kept_when_it_fits():
    weights = torch.tensor([0.3, 2.0])
    index, found = select_coreset(
        torch.ones(2, 2),
        torch.ones(2, 3),
        torch.tensor([0, 1]),
        weights,
        5,
        ridge=0.5,
        generator=torch.Generator(),
    )
    assert index.tolist() == [0, 1]
    assert torch.equal(found, weights)


@pytest.mark.parametrize("seed", range(4))
def test_a_small_coreset_is_among_the_best_of_all(seed):
    """Least squares on three groups of near-duplicates: every choice of three of nine samples is compared."""
    generator = torch.Generator().manual_seed(seed)
    features = 3 * torch.eye(3, 6).repeat_interleave(3, 0) + 0.1 * torch.randn(9, 6, generator=generator)
    targets = features @ torch.tensor([1.0, 2.0, 1.5, 0.3, -0.2, 0.1])
    errors = -2 * targets.unsqueeze(1)  # the gradient of (prediction - target)^2 at a model that predicts 0
    index, weights = select_coreset(
        errors, features, torch.zeros(9, dtype=torch.long), torch.ones(9), 3, ridge=1e-9, generator=generator
    )
    gradients = (errors * torch.cat([features, torch.ones(9, 1)], 1)).double()

    def missing(chosen):  # of the sum of all gradients, with the best non-negative weights
        rows = gradients[list(chosen)]
        return scipy.optimize.nnls(rows.T.numpy(), gradients.sum(0).numpy())[1]

    values = sorted(missing(chosen) for chosen in itertools.combinations(range(9), 3))
    ours = float(torch.linalg.vector_norm(weights.double() @ gradients[index] - gradients.sum(0)))
    assert ours == pytest.approx(missing(index.tolist()), rel=1e-5)  # the weights are the best of this choice
    # The selection is greedy: one of each group, which 27 of the 84 choices are, and all others are far worse.
    assert ours <= values[26] < 0.5 * values[27]
