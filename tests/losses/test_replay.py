"""Losses on remembered class scores against double loops."""

import math

import pytest
import torch

from gplasc.losses.replay import cross_entropy, logit_distance
from gplasc.methods.fdr import _function_distance as function_distance
from gplasc.methods.icarl import _binary_distillation as binary_distillation


@pytest.fixture
def scores():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 4, generator=generator), torch.randn(5, 4, generator=generator)


def test_logit_distance_is_a_mean_over_samples_and_classes(scores):
    z, old = scores
    total = sum((float(z[i, c]) - float(old[i, c])) ** 2 for i in range(5) for c in range(4))
    assert float(logit_distance(z, old)) == pytest.approx(total / (5 * 4), rel=1e-5)


def test_weights_are_relative(scores):
    z, old = scores
    w = torch.tensor([0.5, 0.0, 2.0, 1.0, 0.1])
    rows = [sum((float(z[i, c]) - float(old[i, c])) ** 2 for c in range(4)) / 4 for i in range(5)]
    expected = sum(float(w[i]) * rows[i] for i in range(5)) / float(w.sum())
    assert float(logit_distance(z, old, w)) == pytest.approx(expected, rel=1e-5)
    assert float(logit_distance(z, old, 7 * w)) == pytest.approx(expected, rel=1e-5)


def test_weighted_cross_entropy(scores):
    z, y = scores[0], torch.tensor([0, 1, 2, 3, 0])
    w = torch.tensor([1.0, 3.0, 0.0, 2.0, 1.0])
    rows = [math.log(sum(math.exp(float(z[i, c])) for c in range(4))) - float(z[i, y[i]]) for i in range(5)]
    expected = sum(float(w[i]) * rows[i] for i in range(5)) / 7
    assert float(cross_entropy(z, y, w)) == pytest.approx(expected, rel=1e-5)


def test_function_distance_is_the_mean_length_of_probability_differences(scores):
    z, old = scores

    def probabilities(row):
        powers = [math.exp(float(v)) for v in row]
        return [p / sum(powers) for p in powers]

    lengths = []
    for a, b in zip(z, old, strict=True):
        lengths.append(
            math.sqrt(sum((p - q) ** 2 for p, q in zip(probabilities(a), probabilities(b), strict=True)))
        )
    assert float(function_distance(z, old)) == pytest.approx(sum(lengths) / 5, rel=1e-5)


def test_function_distance_has_a_gradient_where_it_is_zero(scores):
    z = scores[0].clone().requires_grad_()
    function_distance(z, z.detach()).backward()
    assert torch.equal(z.grad, torch.zeros_like(z))


def test_binary_distillation_takes_the_past_from_the_previous_model(scores):
    z, old = scores
    y, past = torch.tensor([0, 1, 2, 3, 3]), 2
    total = 0.0
    for i in range(5):
        for c in range(4):
            p = 1 / (1 + math.exp(-float(z[i, c])))
            t = 1 / (1 + math.exp(-float(old[i, c]))) if c < past else float(int(y[i]) == c)
            total -= t * math.log(p) + (1 - t) * math.log(1 - p)
    assert float(binary_distillation(z, y, old, past)) == pytest.approx(total / 20, rel=1e-5)
    # Nothing else of the previous model's scores matters.
    changed = old.clone()
    changed[:, past:] = 99.0
    assert torch.equal(binary_distillation(z, y, changed, past), binary_distillation(z, y, old, past))


def test_binary_distillation_of_the_first_task_is_the_labels(scores):
    z, y = scores[0], torch.tensor([0, 1, 2, 3, 0])
    one_hot = torch.eye(4)[y]
    expected = torch.nn.functional.binary_cross_entropy(z.sigmoid(), one_hot)
    assert torch.allclose(binary_distillation(z, y, None, 0), expected, atol=1e-6)


def test_without_rows_the_losses_are_zero_with_a_graph():
    z, y = torch.zeros(0, 3, requires_grad=True), torch.zeros(0, dtype=torch.long)
    none = torch.zeros(0)
    for loss in (logit_distance(z, z.detach()), cross_entropy(z, y, none)):
        assert float(loss.detach()) == 0.0
        loss.backward()


def test_no_gradient_reaches_what_is_remembered(scores):
    z, old = scores[0].clone().requires_grad_(), scores[1].clone().requires_grad_()
    loss = logit_distance(z, old) + function_distance(z, old)
    (loss + binary_distillation(z, torch.zeros(5, dtype=torch.long), old, 2)).backward()
    assert old.grad is None
    assert z.grad is not None


def test_logits_of_classes_that_came_later_do_not_count(scores):
    """Compared on the columns that were stored: the same as with narrower logits, and without a gradient elsewhere."""
    z, old = scores
    absent = old.clone()
    absent[:, 3] = torch.nan
    for distance in (logit_distance, function_distance):
        logits = z.clone().requires_grad_()
        value = distance(logits, absent)
        assert value.item() == pytest.approx(distance(z[:, :3], old[:, :3]).item(), rel=1e-6)
        value.backward()
        assert torch.equal(logits.grad[:, 3], torch.zeros(5))
        assert logits.grad.isfinite().all()
