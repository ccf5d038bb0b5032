import math

import torch

from gplasc.memory.importance import class_probabilities, importance_scores


def test_scores_equal_the_double_loop():
    generator = torch.Generator().manual_seed(0)
    similarity = torch.rand(7, 3, generator=generator) * 2 - 1
    y = torch.tensor([0, 0, 1, 1, 2, 2, 2])
    found = importance_scores(similarity, y, 0.3)
    for i in range(7):
        total = 0.0
        for c in range(3):
            if c != y[i]:
                weights = [math.exp(similarity[j, c].item() / 0.3) for j in range(7)]
                total += weights[i] / sum(weights)
        assert math.isclose(found[i].item(), total / 2, rel_tol=1e-6)


def test_a_single_class_is_drawn_from_uniformly():
    y = torch.zeros(4, dtype=torch.long)
    scores = importance_scores(torch.rand(4, 1), y, 0.5)
    assert scores.abs().max() < 1e-12
    assert torch.allclose(
        class_probabilities(torch.zeros(4, dtype=torch.float64), y), torch.full((4,), 0.25).double()
    )


def test_probabilities_sum_to_one_in_each_class():
    y = torch.tensor([0, 1, 0, 1, 1])
    probabilities = class_probabilities(torch.rand(5, dtype=torch.float64), y)
    assert torch.allclose(torch.zeros(2).double().index_add_(0, y, probabilities), torch.ones(2).double())
