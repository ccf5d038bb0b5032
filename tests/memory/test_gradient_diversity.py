"""GSS: gradients of single samples, scores, and the contest for places."""

import pytest
import torch
from torch import nn

from gplasc.memory.gradient_diversity import (
    _sample_gradients,
    diverse_slots,
    gradient_products,
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
    assert torch.allclose(_sample_gradients(network, *batch), expected, atol=1e-6)
    products = gradient_products(network, *batch)
    assert torch.allclose(products, expected @ expected.T, rtol=1e-4, atol=1e-6)


class Tokens(nn.Module):
    """Linear layers that see tokens, (N, T, D), or all tokens as rows, (N * T, D)."""

    feature_dim = 4

    def __init__(self, rows):
        super().__init__()
        self.rows, self.inner, self.outer = rows, nn.Linear(8, 6), nn.Linear(6, 4)

    def forward(self, x):
        tokens = self.inner(x.flatten(0, 2) if self.rows else x.squeeze(1)).relu()
        return self.outer(tokens).view(len(x), -1, 4).mean(1)


@pytest.mark.parametrize("rows", [False, True])
def test_products_of_a_network_of_tokens(batch, rows):
    torch.manual_seed(2)
    network = Network(Tokens(rows), classifier=LinearClassifier(4, 3))
    expected = one_by_one(network, *batch)
    assert torch.allclose(gradient_products(network, *batch), expected @ expected.T, rtol=1e-4, atol=1e-6)


def test_products_of_a_residual_network(batch):
    """Weights of every kind that the encoders have, values overwritten in place, and a layer that is used twice."""
    encoder = build_encoder("resnet18", in_channels=1, width=2, features="relu")
    network = Network(encoder, classifier=LinearClassifier(encoder.feature_dim, 3))
    expected = one_by_one(network, *batch)
    products = gradient_products(network, *batch)
    assert torch.allclose(products, expected @ expected.T, rtol=1e-3, atol=1e-6 * float(products.max()))

    class Twice(nn.Module):
        feature_dim = 16

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)
            self.last = nn.Linear(64, 16)

        def forward(self, x):
            return self.last(torch.relu(self.layer(torch.tanh(self.layer(x.flatten(1))))))

    network = Network(Twice(), classifier=LinearClassifier(16, 3))
    expected = one_by_one(network, *batch)
    assert torch.allclose(gradient_products(network, *batch), expected @ expected.T, rtol=1e-4, atol=1e-6)


def test_products_of_a_network_with_other_layers(batch):
    class Other(nn.Module):
        feature_dim = 12

        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.LayerNorm(12), nn.ReLU())

        def forward(self, x):
            return self.layers(x)

    network = Network(Other(), classifier=LinearClassifier(12, 3))
    expected = one_by_one(network, *batch)
    assert torch.allclose(gradient_products(network, *batch), expected @ expected.T, rtol=1e-4, atol=1e-6)


def test_the_network_is_left_as_it_was(network, batch):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    _sample_gradients(network, *batch)
    gradient_products(network, *batch)
    assert network.training
    assert all(p.grad is None for p in network.parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_scores_are_one_plus_the_largest_cosine():
    gradients = torch.randn(9, 4, generator=torch.Generator().manual_seed(2))
    batch, references = gradients[:6], gradients[6:]

    def largest(g):
        return 1 + max(float(torch.cosine_similarity(g, r, dim=0)) for r in references)

    score, scores = similarity_scores(gradients @ gradients.T, 6)
    assert scores.tolist() == pytest.approx([largest(g) for g in batch], abs=1e-5)
    assert float(score) == pytest.approx(largest(batch.mean(0)), abs=1e-5)


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
        both = torch.cat([new, gradients])
        _, score = similarity_scores(both @ both.T, 1)
        if float(score) < 1.5:
            winners, slots = diverse_slots(scores, score, generator)
            gradients[slots], scores[slots] = new[winners], score[winners]
    assert torch.linalg.matrix_rank(gradients) >= 6
