import torch


def test_fills_first_and_keeps_scores_of_all_rows(learned, in_training_data):
    learner = learned("gss", task=0)  # 8 samples seen, 9 places
    memory = learner.ctx.memory
    assert len(memory) == 8
    assert torch.allclose(memory["score"], torch.tensor(0.1))
    learner = learned("gss")
    memory = learner.ctx.memory
    assert len(memory) == 9
    assert ((memory["score"] >= 0) & (memory["score"] <= 2)).all()
    assert in_training_data(learner, memory["x"], memory["y"])


def test_a_batch_that_points_the_same_way_is_turned_away(learned, next_batch, monkeypatch):
    learner = learned("gss", task=1)
    before = learner.ctx.memory.rows()["x"].clone()
    monkeypatch.setattr("gplasc.methods.gss.similarity_scores", lambda p, n: (1.2, torch.full((n,), 1.2)))
    learner.step(next_batch(learner))
    assert torch.equal(learner.ctx.memory["x"], before)


def test_a_batch_that_points_elsewhere_gets_in(learned, next_batch, monkeypatch):
    learner = learned("gss", task=1)
    before = learner.ctx.memory.rows()["x"].clone()
    monkeypatch.setattr("gplasc.methods.gss.similarity_scores", lambda p, n: (1e-9, torch.full((n,), 1e-9)))
    batch = next_batch(learner)
    learner.step(batch)
    after = learner.ctx.memory["x"]
    changed = (after != before).flatten(1).any(1)
    assert int(changed.sum()) >= min(len(batch.y), 9) - 1  # a candidate of score 0 loses to nobody
    assert torch.allclose(learner.ctx.memory["score"][changed], torch.tensor(1e-9))
    assert (batch.x.flatten(1).unsqueeze(0) == after[changed].flatten(1).unsqueeze(1)).all(2).any(1).all()
