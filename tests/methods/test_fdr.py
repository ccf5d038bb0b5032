import pytest
import torch

from gplasc.streams import Samples


def test_each_task_has_its_share_and_earlier_rows_are_kept(learned, in_training_data):
    learner = learned("fdr", task=2)
    before = learner.ctx.memory.rows()
    tasks = learner.ctx.task_of(before["y"])
    assert torch.bincount(tasks).tolist() == [5, 4]
    after = learned("fdr").ctx.memory.rows()
    assert torch.bincount(learner.ctx.task_of(after["y"])).tolist() == [3, 3, 3]
    assert in_training_data(learner, after["x"], after["y"])
    old = after["x"][after["y"] < 4].flatten(1)
    kept = (old.unsqueeze(1) == before["x"].flatten(1)).all(2).any(1)
    assert kept.all(), "what is left of earlier tasks was there before"


def test_remembers_the_outputs_of_the_model_that_learned_the_task(learned):
    learner = learned("fdr")
    ctx = learner.ctx
    newest = ctx.memory["y"] >= ctx.task.classes.start
    (out,) = ctx.embed(Samples(ctx.memory["x"], ctx.memory["y"]))
    logits = out.logits
    assert torch.allclose(ctx.memory["logits"][newest], logits[newest], atol=1e-5)
    assert not torch.allclose(ctx.memory["logits"][~newest], logits[~newest], atol=1e-3)


def test_alpha_weighs_the_distance(learned, next_batch, forwarded):
    terms = {}
    for alpha in (1.0, 0.3):
        learner = learned("fdr", task=1, **{"fdr.alpha": 0.0})
        method = learner.method
        method.settings = method.settings.model_copy(update={"alpha": alpha})
        parts = forwarded(learner, next_batch(learner))
        terms[alpha] = float(method.loss(parts, learner.ctx)["fdr"].detach())
    assert terms[0.3] == pytest.approx(0.3 * terms[1.0], rel=1e-5)
    assert terms[1.0] > 0


def test_nothing_is_remembered_inside_a_task(learned):
    assert len(learned("fdr", task=0).ctx.memory) == 0
