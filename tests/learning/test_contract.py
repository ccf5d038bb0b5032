"""What the contract carries: own gradients, a second pass at other weights, a method without training."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from gplasc.conformance import _check, _Subject
from gplasc.errors import UserError
from gplasc.learning import Batch
from gplasc.methods import find_method
from gplasc.streams import Samples

GRADIENTS = '''
"""The gradient of the memory's loss is added by hand; written as a term, it would be the same."""

from gplasc.methods.base import ReplayMethod, ReplaySettings, cross_entropy


class ByHand(ReplayMethod):
    Settings = ReplaySettings
    minibatches = ("memory",)
    AS_TERM = False

    def loss(self, parts, ctx):
        terms = {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
        if "memory" in parts and self.AS_TERM:
            terms["replay"] = cross_entropy(parts["memory"].out.logits, parts["memory"].y)
        return terms

    def adjust_gradients(self, parts, ctx):
        if "memory" in parts and not self.AS_TERM:
            loss = cross_entropy(ctx.forward(parts["memory"]).logits, parts["memory"].y)
            ctx.set_gradient(ctx.flat_gradient() + ctx.gradient(loss))
'''
OTHER_WEIGHTS = '''
"""Outputs are kept where the weights are a little worse, as in STAR: two more passes, forward and backward."""

import torch
from torch.nn import functional as F

import gplasc
from gplasc.models import steady_statistics


class OtherWeights(gplasc.Plugin):
    def adjust_gradients(self, method_parts, parts, ctx):
        part = method_parts["batch"]
        target = part.out.features.detach()
        weights = [p for p in ctx.modules.parameters() if p.grad is not None]
        kept = [weight.detach().clone() for weight in weights]

        def move(step):
            for weight, part in zip(weights, step.split([w.numel() for w in weights]), strict=True):
                weight.add_(part.view_as(weight))

        with torch.no_grad():
            noise = torch.randn(sum(w.numel() for w in weights), generator=ctx.random["other_weights"])
            move(0.01 * noise.to(ctx.device))
        with steady_statistics(ctx.network):
            worse = ctx.gradient(F.mse_loss(ctx.forward(part).features, target))
            with torch.no_grad():
                move(0.1 * F.normalize(worse, dim=0))
            added = ctx.gradient(F.mse_loss(ctx.forward(part).features, target))
        with torch.no_grad():
            for weight, value in zip(weights, kept, strict=True):
                weight.copy_(value)
        assert added.any()
        ctx.set_gradient(ctx.flat_gradient() + 0.5 * added)
'''
NO_TRAINING = '''
"""The mean of each class is all that is learned."""

import torch
from gplasc.methods.base import FeatureStatistics


class Means(FeatureStatistics):
    def scores(self, means, second):
        return means, -means.square().sum(1) / 2
'''


@pytest.fixture
def write(tmp_path):
    def file(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text.strip())
        return str(path)

    return file


@pytest.fixture
def in_second_task(tiny, new_learner):
    def learn(method, plugins=()):
        learner = new_learner(tiny(method, plugins))
        learner.learn_task(learner.stream[0])
        learner.enter(learner.stream[1], past=learner.stream[:1])
        learner.ctx.modules.train()
        return learner

    return learn


def conforms(method, *plugins):
    assert not [outcome for outcome in _check(_Subject(method, plugins)) if not outcome.passed]


def step(learner):
    learner.step(learner.ctx.pool.take(torch.arange(8)))


def test_a_method_may_compute_gradients_itself(write, in_second_task):
    gradients = []
    for as_term in (False, True):
        learner = in_second_task(write("by_hand", GRADIENTS))
        learner.method.AS_TERM = as_term
        step(learner)
        gradients.append(learner.ctx.flat_gradient())
    assert torch.allclose(*gradients, atol=1e-6)
    conforms(write("by_hand", GRADIENTS), "gplasc")


@pytest.mark.parametrize("method", ["er", "agem", "co2l"])
def test_a_plugin_may_forward_at_other_weights(method, write, in_second_task):
    plugin = write("other_weights", OTHER_WEIGHTS)
    plain, learner = in_second_task(method, (plugin,)), in_second_task(method, (plugin,))
    plain.plugins[0].adjust_gradients = lambda *arguments: None
    for one in (plain, learner):
        one.optimizer.param_groups[0]["lr"] = 0.0
        step(one)
    assert not torch.equal(learner.ctx.flat_gradient(), plain.ctx.flat_gradient())
    for name, value in plain.ctx.network.state_dict().items():
        if "num_batches_tracked" not in name:
            assert torch.equal(value, learner.ctx.network.state_dict()[name]), f"{name} was not put back"
    conforms(method, plugin, "gplasc")


def test_a_method_may_train_nothing(write, in_second_task):
    method = write("means", NO_TRAINING)
    learner = in_second_task(method)
    assert learner.position.total_steps == 0
    before = {name: value.clone() for name, value in learner.ctx.modules.state_dict().items()}
    learner.learn(learner.stream)
    assert all(torch.equal(value, before[name]) for name, value in learner.ctx.modules.state_dict().items())
    conforms(method, "gplasc")


@pytest.mark.parametrize("shift", ["range", "labels"])
def test_labels_that_are_shifted_are_an_error(shift, tiny, new_learner):
    learner = new_learner(tiny("er"))
    first = learner.stream[0]
    if shift == "range":
        wrong, words = replace(first, classes=range(1, 3)), "its first class must be 0"
    else:
        wrong, words = (
            replace(first, train=Samples(first.train.x, first.train.y + 1)),
            "number the labels over all",
        )
    with pytest.raises(UserError, match=words):
        learner.learn_task(wrong)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("shift", [-2, -1, 1])
def test_labels_of_a_later_task_that_are_shifted_are_an_error(split, shift, tiny, new_learner):
    """Also downwards, to classes of earlier tasks, of which a task may have samples next to all of its own."""
    learner = new_learner(tiny("finetune"))
    learner.learn_task(learner.stream[0])
    task = learner.stream[1]
    samples = getattr(task, split)
    moved = Samples(samples.x, samples.y + shift)
    with pytest.raises(UserError, match=r"but its new classes are 2 to 3: number the labels over all"):
        learner.learn_task(replace(task, **{split: moved}))
    more = Samples(torch.cat([samples.x, samples.x[:1]]), torch.cat([samples.y, samples.y[:1] * 0]))
    learner.learn_task(replace(task, train=more) if split == "train" else task)


def test_batches_are_added_and_indexed_with_their_columns():
    x = torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1)
    drawn = Batch(x[:4], torch.arange(4), {"logits": torch.eye(4), "score": torch.arange(4)}, torch.arange(4))
    more = Batch(x[4:], torch.tensor([4, 5]), {"logits": torch.zeros(2, 4)}, torch.tensor([-1, -1]))
    both = drawn + more
    assert len(both) == 6
    assert torch.equal(both.x, x)
    assert list(both.columns) == ["logits"]
    some = both[torch.tensor([5, 1])]
    assert some.y.tolist() == [5, 1]
    assert some.memory_rows.tolist() == [-1, 1]
    assert torch.equal(
        some.columns["logits"], F.one_hot(torch.tensor([1]), 4).new_tensor([[0] * 4, [0, 1, 0, 0]])
    )
    assert (drawn + Batch(x[4:], torch.tensor([4, 5]))).memory_rows is None


def test_the_previous_model_is_asked_when_it_is_read(in_second_task):
    learner = in_second_task("co2l")
    ctx, calls = learner.ctx, []
    ctx.previous["network"].encoder.register_forward_hook(lambda *_: calls.append(1))
    part = learner.method.parts(ctx.pool.take(torch.arange(4)), ctx)["batch"]
    assert not calls
    assert part.previous is part.previous
    assert len(calls) == 1
    assert not part.previous.projection.requires_grad


OLD = {
    "loss(self, parts, outs, ctx)": "`def loss(self, parts, ctx)`",
    "adjust_gradients(self, ctx)": "`def adjust_gradients(self, parts, ctx)`",
    "after_step(self, batch, parts, outs, ctx)": "`def after_step(self, batch, parts, ctx)`",
}


@pytest.mark.parametrize("old", OLD)
def test_old_arguments_of_a_method_are_named(old, write):
    text = f"import gplasc\nclass Mine(gplasc.Method):\n    def {old}: pass"
    with pytest.raises(UserError) as caught:
        find_method(write("mine", text))
    assert OLD[old] in str(caught.value)
