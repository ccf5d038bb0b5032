import torch

from gplasc.methods.agem import _project
from gplasc.methods.base import cross_entropy


def test_a_gradient_against_the_past_becomes_orthogonal_to_it():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        g, reference = torch.randn(50, generator=generator), torch.randn(50, generator=generator)
        projected = _project(g, reference)
        if torch.dot(g, reference) >= 0:
            assert torch.equal(projected, g)
            continue
        assert abs(float(torch.dot(projected, reference))) < 1e-4
        # And it is the nearest such one: the change is along the reference.
        change = torch.cosine_similarity(projected - g, reference, dim=0)
        assert torch.allclose(change, torch.tensor(1.0), atol=1e-5)


def test_a_reference_of_length_zero_changes_nothing():
    g = torch.randn(5, generator=torch.Generator().manual_seed(1))
    assert torch.equal(_project(g, torch.zeros(5)), g)


def test_the_step_does_not_go_against_the_memory(learned, next_batch, monkeypatch):
    learner = learned("agem", ("gplasc",), task=1)
    seen = []

    def watch(gradient, reference):
        seen.append((gradient.clone(), reference))
        return _project(gradient, reference)

    monkeypatch.setattr("gplasc.methods.agem._project", watch)
    for _ in range(6):
        learner.step(next_batch(learner))
        _, reference = seen[-1]
        assert float(torch.dot(learner.ctx.flat_gradient(), reference)) > -1e-4
    assert any(float(torch.dot(g, r)) < 0 for g, r in seen), "the projection was never needed"


def test_the_reference_leaves_gradients_and_plugin_weights_alone(learned, next_batch):
    learner = learned("agem", ("gplasc",), task=1)
    learner.step(next_batch(learner))
    ctx = learner.ctx
    before = ctx.flat_gradient()
    part = ctx.part(ctx.draw(len(ctx.memory), ctx.random["replay"]))
    reference = ctx.gradient(cross_entropy(ctx.forward(part).logits, part.y))
    assert torch.equal(ctx.flat_gradient(), before)
    start = 0
    for name, parameter in ctx.modules.named_parameters():
        if parameter.grad is None:
            continue
        part = reference[start : start + parameter.numel()]
        assert bool(part.any()) == ("projection" not in name), name
        start += parameter.numel()
    assert start == len(reference)


def test_flat_gradients_are_written_back_where_they_came_from(learned, next_batch):
    learner = learned("agem", task=0)
    learner.step(next_batch(learner))
    gradient = learner.ctx.flat_gradient()
    learner.ctx.set_gradient(gradient * 2)
    assert torch.equal(learner.ctx.flat_gradient(), gradient * 2)


def test_the_memory_is_divided_equally_and_full(learned, in_training_data):
    learner = learned("agem")
    memory = learner.ctx.memory
    assert torch.bincount(learner.ctx.task_of(memory["y"])).tolist() == [3, 3, 3]
    assert in_training_data(learner, memory["x"], memory["y"])
