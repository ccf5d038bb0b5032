from unittest import mock

import torch

from gplasc.methods import gcr


def test_each_task_has_its_share_with_positive_weights(learned, in_training_data):
    learner = learned("gcr")
    memory = learner.ctx.memory
    assert torch.bincount(learner.ctx.task_of(memory["y"])).tolist() == [3, 3, 3]
    assert (memory["weight"] > 0).all()
    assert in_training_data(learner, memory["x"], memory["y"])


def test_candidates_are_of_the_current_task_and_gone_after_it(learned):
    learner = learned("gcr", task=1)
    candidates = learner.method.state_dict()["candidates"]["columns"]
    assert set(candidates["y"].tolist()) <= set(learner.ctx.task.classes)
    assert learned("gcr").method.state_dict()["candidates"]["columns"] == {}


def test_replay_mixes_coreset_and_candidates_in_proportion(learned, next_batch):
    learner = learned("gcr", task=1, **{"train.epochs": 1, "gcr.memory_batch": 8})
    method, ctx = learner.method, learner.ctx
    assert len(ctx.memory) == 9
    current = min(len(method.state_dict()["candidates"]["columns"]["y"]), 5)  # ceil(9 / 2) places later
    parts = method.parts(next_batch(learner), ctx)
    assert len(parts["batch"].current) == len(parts["batch"].y)
    for part in (parts["logits"], parts["labels"]):
        assert len(part.y) == 8
        assert len(part.current) == 8 * current // (current + 9)
        assert set(part.columns) == {"logits", "weight"}
    assert not torch.equal(parts["logits"].columns["logits"], parts["labels"].columns["logits"])


def test_terms_are_weighted(learned, next_batch, forwarded):
    learner = learned("gcr", task=2)
    method, ctx = learner.method, learner.ctx
    parts = forwarded(learner, next_batch(learner))
    terms = method.loss(parts, ctx)
    dark_part, label_part = parts["logits"], parts["labels"]
    w = dark_part.columns["weight"] / dark_part.columns["weight"].sum()
    distance = dark_part.out.logits - dark_part.columns["logits"]
    dark = sum(w[i] * distance[i].square().mean() for i in range(len(w)))
    assert torch.allclose(terms["dark"], method.settings.alpha * dark, atol=1e-6)
    w = label_part.columns["weight"] / label_part.columns["weight"].sum()
    scores = label_part.out.logits.log_softmax(1)
    again = sum(-w[i] * scores[i, label_part.y[i]] for i in range(len(w)))
    assert torch.allclose(terms["replay"], method.settings.beta * again, atol=1e-6)


def test_with_several_epochs_only_what_is_understood_becomes_a_candidate(learned, next_batch):
    learner = learned("gcr", task=0, **{"train.first_epochs": 2})
    ctx = learner.ctx
    before = len(learner.method.state_dict()["candidates"]["columns"].get("y", []))
    batch = next_batch(learner)
    with torch.no_grad():
        ctx.network.classifier.weight.zero_()
        ctx.network.classifier.bias.copy_(torch.tensor([5.0, 0, 0, 0, 0, 0]))  # only class 0 is understood
    learner.step(batch)
    rows = learner.method.state_dict()["candidates"]["columns"]
    new = rows["y"][before:]
    assert new.tolist() == [0] * int((batch.y == 0).sum())


def test_weights_of_a_coreset(learned):
    weights = learned("gcr", task=1, **{"train.first_epochs": 6}).ctx.memory["weight"]
    assert weights.mean() > 1.1, "few rows stand for all candidates"


def test_replay_reaches_every_candidate(learned):
    learner = learned("gcr", task=1, step=2, **{"gcr.memory_batch": 6})
    method, ctx = learner.method, learner.ctx
    candidates = method.state_dict()["candidates"]["columns"]["logits"]
    assert len(candidates) > -(-ctx.memory.capacity // 2)  # more than the places they will have
    drawn = torch.cat([method.draw(ctx).columns["logits"] for _ in range(200)])
    assert all((row == drawn).all(1).any() for row in candidates)


def test_gradients_of_the_coreset_are_those_of_the_replay_terms(learned):
    """Also where logits of unannounced classes are absent: the loss averages over those present."""
    learner = learned("gcr", task=1, **{"gcr.alpha": 0.7})
    method, ctx = learner.method, learner.ctx
    rows = {name: value[:3] for name, value in ctx.memory.rows().items()}
    rows["logits"][1, 3:] = torch.nan
    rows["weight"] = torch.ones(3)
    logits, _ = gcr._outputs(ctx, rows)
    seen = {}

    def spy(errors, *rest, **more):
        seen["errors"] = errors
        return torch.arange(1), torch.ones(1)

    with mock.patch.object(gcr, "select_coreset", spy):
        method._select(ctx, rows, 1)
    logits.requires_grad_()
    dark = gcr.logit_distance(logits, rows["logits"]) * method.settings.alpha
    again = torch.nn.functional.cross_entropy(logits, rows["y"]) * method.settings.beta
    expected = torch.autograd.grad(3 * (dark + again), logits)[0]  # both are means over the three rows
    assert torch.allclose(seen["errors"], expected, atol=1e-6)
