import math

import pytest


@pytest.mark.parametrize("task", [0, 1])
def test_the_batch_competes_with_its_own_classes_and_those_to_come_alone(
    task, learned, next_batch, forwarded
):
    learner = learned("er-ace", task=task)
    ctx, batch = learner.ctx, next_batch(learner)
    batch = batch[batch.y == batch.y[0]]  # one class of the task: the other one is hidden too
    parts = forwarded(learner, batch)
    terms = learner.method.loss(parts, ctx)
    seen, rows, replayed = set(ctx.seen), [], []
    for scores, label in zip(parts["batch"].out.logits.tolist(), batch.y.tolist(), strict=True):
        allowed = [c for c in range(len(scores)) if task == 0 or c not in seen or c in batch.y.tolist()]
        rows.append(math.log(sum(math.exp(scores[c]) for c in allowed)) - scores[label])
    for scores, label in zip(parts["memory"].out.logits.tolist(), parts["memory"].y.tolist(), strict=True):
        replayed.append(math.log(sum(map(math.exp, scores))) - scores[label])
    assert terms["ce"].item() == pytest.approx(sum(rows) / len(rows), rel=1e-5)
    assert terms["replay"].item() == pytest.approx(sum(replayed) / len(replayed), rel=1e-5)
    ctx.modules.zero_grad()
    terms["ce"].backward()
    gradient = ctx.network.classifier.bias.grad
    assert gradient.isfinite().all()
    assert [bool(value) for value in gradient] == [
        task == 0 or c not in seen or c in batch.y.tolist() for c in range(6)
    ]
