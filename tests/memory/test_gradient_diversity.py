"""GSS: gradients of single samples, scores, and the contest for places."""

import pytest
import torch
from torch import nn

from gplasc.memory.gradient_diversity import (
    batch_gradient,
    diverse_slots,
    sample_gradients,
    similarity_scores,
)
from gplasc.models import LinearClassifier, Network, ProjectionHead, build_encoder


@pytest.fixture
def network():
    generator = torch.Generator().manual_seed(0)
    encoder = build_encoder("small", in_channels=1, width=4, features="relu", generator=generator)
    dim = encoder.feature_dim
    network = Network(
        encoder,
        ProjectionHead(dim, hidden=8, out=4, generator=generator),
        LinearClassifier(dim, 3, generator=generator),
    )
    network(torch.randn(16, 1, 8, 8, generator=generator))  # running statistics that are not the initial ones
    return network


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(5, 1, 8, 8, generator=generator), torch.tensor([0, 1, 2, 0, 1])


def one_by_one(network, x, y):
    """One backward pass a sample."""
    weights = [p for name, p in network.named_parameters() if not name.startswith("projection")]
    network.eval()
    rows = []
    for index in range(len(y)):
        loss = nn.functional.cross_entropy(network(x[index : index + 1]).logits, y[index : index + 1])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)]))
    network.train()
    return torch.stack(rows)


def test_gradients_equal_one_backward_pass_a_sample(network, batch):
    expected = one_by_one(network, *batch)
    assert torch.allclose(sample_gradients(network, *batch), expected, atol=1e-6)
    assert torch.allclose(batch_gradient(network, *batch), expected.mean(0), atol=1e-6)


def test_the_network_is_left_as_it_was(network, batch):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    sample_gradients(network, *batch)
    batch_gradient(network, *batch)
    assert network.training
    assert all(p.grad is None for p in network.parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_scores_are_one_plus_the_largest_cosine():
    generator = torch.Generator().manual_seed(2)
    gradients, references = torch.randn(6, 4, generator=generator), torch.randn(3, 4, generator=generator)
    expected = [1 + max(float(torch.cosine_similarity(g, r, dim=0)) for r in references) for g in gradients]
    assert similarity_scores(gradients, references).tolist() == pytest.approx(expected, abs=1e-5)


def test_wins_as_often_as_the_scores_say():
    generator = torch.Generator().manual_seed(3)
    scores, candidate, trials = torch.tensor([1.5, 0.5]), torch.tensor([0.5]), 8000
    taken = torch.zeros(2)
    for _ in range(trials):
        _, slots = diverse_slots(scores, candidate, generator)
        taken[slots] += 1
    # Drawn with 3/4 and won with 3/4; drawn with 1/4 and won with 1/2. A standard deviation is below 0.0056.
    assert (taken / trials).tolist() == pytest.approx([9 / 16, 1 / 8], abs=5 * 0.0056)


def test_slots_are_distinct_and_candidates_beyond_the_memory_go_without():
    winners, slots = diverse_slots(torch.full((4,), 2.0), torch.zeros(9), torch.Generator().manual_seed(0))
    assert sorted(slots.tolist()) == [0, 1, 2, 3]  # a candidate of score 0 always wins
    assert winners.tolist() == [0, 1, 2, 3]
    none, _ = diverse_slots(torch.ones(4), torch.zeros(0), torch.Generator())
    assert len(none) == 0


def test_a_memory_of_copies_becomes_diverse():
    """Gradients along one direction give way to those along others."""
    generator = torch.Generator().manual_seed(5)
    gradients = torch.eye(8)[torch.zeros(8, dtype=torch.long)]
    scores = torch.full((8,), 2.0)
    for _ in range(100):
        new = (
            torch.eye(8)[torch.randint(8, (1,), generator=generator)]
            * torch.randn(1, generator=generator).sign()
        )
        score = similarity_scores(new, gradients)
        if float(score) < 1.5:
            winners, slots = diverse_slots(scores, score, generator)
            gradients[slots], scores[slots] = new[winners], score[winners]
    assert torch.linalg.matrix_rank(gradients) >= 6
