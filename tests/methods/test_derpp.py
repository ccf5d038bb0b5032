import torch


def test_uses_two_independent_minibatches(learned, next_batch):
    settings = {"derpp.memory_batch": 4}
    learner = learned("derpp", task=1, **settings)
    batch = next_batch(learner)
    rounds = [learner.method.parts(batch, learner.ctx) for _ in range(10)]
    pairs = [(parts["logits"], parts["labels"]) for parts in rounds]
    drawn = [[tuple(map(tuple, part.columns["logits"].tolist())) for part in pair] for pair in pairs]
    assert sum(set(first) == set(second) for first, second in drawn) < 5
    assert any(set(first) & set(second) for first, second in drawn), "independent draws meet now and then"


def test_terms_come_from_their_own_minibatch(learned, next_batch, forwarded):
    learner = learned("derpp", task=1)
    method, ctx = learner.method, learner.ctx
    parts = forwarded(learner, next_batch(learner))
    terms = method.loss(parts, ctx)
    dark = (parts["logits"].out.logits - parts["logits"].columns["logits"]).square().mean()
    again = torch.nn.functional.cross_entropy(parts["labels"].out.logits, parts["labels"].y)
    assert torch.allclose(terms["dark"], method.settings.alpha * dark)
    assert torch.allclose(terms["replay"], method.settings.beta * again)
    assert set(terms) == {"ce", "dark", "replay"}
