import torch


def test_batch_and_memory_are_one_forward_pass_and_one_mean(learned, next_batch, forwarded):
    learner = learned("er", task=1)
    ctx, batch = learner.ctx, next_batch(learner)
    parts = forwarded(learner, batch)
    (part,) = parts.values()
    assert torch.equal(part.y[: len(batch.y)], batch.y)
    assert len(part.y) == len(batch.y) + len(ctx.memory)  # 9 rows, and up to 32 are drawn
    assert len(part.past) > 0
    (term,) = learner.method.loss(parts, ctx).values()
    rows = [-part.out.logits[i].log_softmax(0)[part.y[i]] for i in range(len(part.y))]
    assert torch.allclose(term, torch.stack(rows).mean(), atol=1e-6)


def test_remembers_images_as_they_were(learned, in_training_data):
    memory = learned("er").ctx.memory
    assert len(memory) == 9
    # 16 samples a task, and one epoch more in the first: all are offered.
    assert memory.seen == 16 * 4
    assert in_training_data(learned("er"), memory["x"], memory["y"])


def test_replays_nothing_before_the_first_step(learned, next_batch):
    learner = learned("er", task=0)
    learner.ctx.memory.replace({})
    (part,) = learner.method.parts(next_batch(learner), learner.ctx).values()
    assert len(part.y) == len(next_batch(learner).y)
