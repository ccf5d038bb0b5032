import torch


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
    own, first, second = method.parts(next_batch(learner), ctx)
    assert len(own.current) == len(own.y)
    for part in (first, second):
        assert len(part.y) == 8
        assert len(part.current) == 8 * current // (current + 9)
        assert set(part.extra) == {"logits", "weight"}
    assert not torch.equal(first.extra["logits"], second.extra["logits"])


def test_terms_are_weighted(learned, next_batch):
    learner = learned("gcr", task=2)
    method, ctx = learner.method, learner.ctx
    parts = method.parts(next_batch(learner), ctx)
    outs = [ctx.network(part.x) for part in parts]
    terms = method.loss(parts, outs, ctx)
    w = parts[1].extra["weight"] / parts[1].extra["weight"].sum()
    dark = sum(
        w[i] * (outs[1].logits[i] - parts[1].extra["logits"][i]).square().mean() for i in range(len(w))
    )
    assert torch.allclose(terms["dark"], method.settings.alpha * dark, atol=1e-6)
    w = parts[2].extra["weight"] / parts[2].extra["weight"].sum()
    again = sum(-w[i] * outs[2].logits[i].log_softmax(0)[parts[2].y[i]] for i in range(len(w)))
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
