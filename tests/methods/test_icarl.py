import pytest
import torch
from torch.nn import functional as F

from gplasc.memory.herding import herding_order
from gplasc.methods.icarl import _NearestMean
from gplasc.streams import Samples


def unit_features(learner, x):
    return F.normalize(learner.ctx.features(Samples(x, torch.zeros(len(x)))), dim=1)


def test_exemplars_of_the_newest_classes_are_herded(learned):
    learner = learned("icarl")
    memory, task = learner.ctx.memory, learner.ctx.task
    shares = [2, 2, 2, 1, 1, 1]
    assert torch.bincount(memory["y"]).tolist() == shares
    for label in task.classes:
        images = task.train.x[task.train.y == label]
        order = herding_order(unit_features(learner, images), shares[label])
        mine = memory["y"] == label
        ranked = memory["x"][mine][memory["rank"][mine].argsort()]
        assert torch.equal(ranked, images[order])


def test_old_classes_lose_their_least_representative(learned):
    learner = learned("icarl", task=2)
    before = learner.ctx.memory.rows()
    before = {name: value.clone() for name, value in before.items()}
    learner.callbacks[0].step = -1
    learner.learn(learner.stream)
    after = learner.ctx.memory
    for label, share in enumerate([2, 2, 2, 1]):  # they had 3, 2, 2 and 2
        kept = after["x"][after["y"] == label]
        old = before["y"] == label
        ranked = before["x"][old][before["rank"][old].argsort()]
        assert len(kept) == share
        assert {tuple(i.flatten().tolist()) for i in kept} == {
            tuple(i.flatten().tolist()) for i in ranked[: len(kept)]
        }


@pytest.mark.parametrize("flip", [0.0, 0.5])
def test_means_are_of_exemplars_and_their_mirror_images(learned, flip):
    learner = learned("icarl", **{"data.flip": flip})
    memory = learner.ctx.memory
    for label in range(6):
        images = memory["x"][memory["y"] == label]
        features = unit_features(learner, images)
        if flip:
            features = torch.cat([features, unit_features(learner, images.flip(-1))])
        assert torch.allclose(
            learner.ctx.predictor.means[label], F.normalize(features.mean(0), dim=0), atol=1e-5
        )


def test_the_nearest_mean_wins():
    nearest = _NearestMean(3, 4)
    generator = torch.Generator().manual_seed(0)
    nearest.means.copy_(F.normalize(torch.randn(3, 4, generator=generator), dim=1))
    features = torch.randn(20, 4, generator=generator)
    expected = torch.cdist(F.normalize(features, dim=1), nearest.means).argmin(1)
    assert torch.equal(nearest(features).argmax(1), expected)


def test_a_class_without_exemplars_comes_last():
    nearest = _NearestMean(3, 2)
    nearest.means[0] = torch.tensor([-1.0, 0.0])
    nearest.means[2] = torch.tensor([0.0, 1.0])
    assert nearest(torch.tensor([[1.0, 0.0]])).tolist() == [[-1.0, -1.0, 0.0]]


@pytest.mark.parametrize(("bce_over", "outputs"), [("seen", 4), ("all", 6)])
def test_past_outputs_come_from_the_previous_model(learned, next_batch, forwarded, bce_over, outputs):
    learner = learned("icarl", task=1, **{"icarl.bce_over": bce_over})
    ctx, method = learner.ctx, learner.method
    parts = forwarded(learner, next_batch(learner))
    part = parts["batch"]
    term = method.loss(parts, ctx)["bce"]
    targets = F.one_hot(part.y, outputs).float()
    targets[:, :2] = ctx.previous["network"](part.x).logits[:, :2].sigmoid()
    expected = F.binary_cross_entropy_with_logits(part.out.logits[:, :outputs], targets)
    assert torch.allclose(term, expected, atol=1e-6)
    assert not ctx.previous.training


@pytest.mark.parametrize(("bce_over", "outputs"), [("seen", 2), ("all", 6)])
def test_the_first_task_has_labels_alone(learned, next_batch, forwarded, bce_over, outputs):
    learner = learned("icarl", task=0, **{"icarl.bce_over": bce_over})
    parts = forwarded(learner, next_batch(learner))
    part, total = parts["batch"], 0.0
    for row, label in zip(part.out.logits.double(), part.y.tolist(), strict=True):
        for c in range(outputs):
            probability = row[c].sigmoid()
            total -= (probability if c == label else 1 - probability).log().item()
    term = learner.method.loss(parts, learner.ctx)["bce"]
    assert term.item() == pytest.approx(total / (outputs * len(part.y)), rel=1e-5)


def test_the_published_form_is_the_default_and_declared(learned):
    method = learned("icarl", task=0).method
    assert method.settings.bce_over == "seen"
    assert any("bce_over='seen'" in text for text in method.DEVIATIONS)
