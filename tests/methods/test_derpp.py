import torch


def test_uses_two_independent_minibatches(learned, next_batch):
    settings = {"derpp.memory_batch": 4}
    learner = learned("derpp", task=1, **settings)
    batch = next_batch(learner)
    pairs = [learner.method.parts(batch, learner.ctx)[1:] for _ in range(10)]
    drawn = [[tuple(map(tuple, part.extra["logits"].tolist())) for part in pair] for pair in pairs]
    assert sum(set(first) == set(second) for first, second in drawn) < 5
    assert any(set(first) & set(second) for first, second in drawn), "independent draws meet now and then"


def test_terms_come_from_their_own_minibatch(learned, next_batch):
    learner = learned("derpp", task=1)
    method, ctx = learner.method, learner.ctx
    parts = method.parts(next_batch(learner), ctx)
    outs = [ctx.network(part.x) for part in parts]
    terms = method.loss(parts, outs, ctx)
    dark = (outs[1].logits - parts[1].extra["logits"]).square().mean()
    again = torch.nn.functional.cross_entropy(outs[2].logits, parts[2].y)
    assert torch.allclose(terms["dark"], method.settings.alpha * dark)
    assert torch.allclose(terms["replay"], method.settings.beta * again)
    assert set(terms) == {"ce", "dark", "replay"}
