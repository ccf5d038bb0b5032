import pytest
import torch


def test_remembers_the_logits_of_the_step_before_it_was_taken(learned, next_batch):
    learner = learned("der", task=0)
    ctx, batch = learner.ctx, next_batch(learner)
    ctx.memory.replace({})
    ctx.memory.seen = 0
    seen = {}

    def watch(module, inputs, outputs):
        seen.setdefault("logits", outputs.detach().clone())

    handle = ctx.network.classifier.register_forward_hook(watch)
    learner.step(batch)
    handle.remove()
    assert torch.equal(ctx.memory["logits"], seen["logits"])
    assert torch.equal(ctx.memory["x"], batch.x)


def test_the_memory_is_a_forward_pass_of_its_own_with_its_logits(learned, next_batch, forwarded):
    learner = learned("der", task=1)
    ctx, batch = learner.ctx, next_batch(learner)
    parts = forwarded(learner, batch)
    replayed = parts["logits"]
    assert len(parts["batch"].y) == len(batch)
    assert replayed.columns["logits"].shape == (len(replayed.y), 6)
    terms = learner.method.loss(parts, ctx)
    difference = replayed.out.logits.detach() - replayed.columns["logits"]
    alpha = learner.method.settings.alpha
    mean = sum(float(d) ** 2 for row in difference for d in row) / (len(replayed.y) * 6)
    assert float(terms["dark"].detach()) == pytest.approx(alpha * mean, rel=1e-4)
    assert set(terms) == {"ce", "dark"}


def test_logits_stay_with_their_image(learned):
    """Each remembered row's logits belong to its own image: after training, its label scores higher than others'."""
    memory = learned("der", **{"train.epochs": 30, "train.first_epochs": 30}).ctx.memory
    assert float((memory["logits"].argmax(1) == memory["y"]).float().mean()) > 0.5
