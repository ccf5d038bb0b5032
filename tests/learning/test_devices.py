"""Precision, compilation, and steps that never synchronize the device: what can be shown without a GPU."""

import contextlib

import pytest
import torch

from gplasc.build import build_learner
from gplasc.learning.devices import autocast, new_scaler
from gplasc.running import open_configured_stream


def trained(tiny, precision="float32", compiled=False):
    """Learn two tasks; a value that is not finite would end the run."""
    resolved = tiny("co2l", ("gplasc",), **{"train.lr": 0.05, "train.precision": precision})
    stream = open_configured_stream(resolved, None)
    learner = build_learner(resolved.config, stream, compiled=compiled)
    for index in range(2):
        learner.learn_task(stream[index], past=stream[:index])
    return learner


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_low_precision_learns_nearly_the_same(precision, tiny):
    exact, low = trained(tiny), trained(tiny, precision)
    one, two = (torch.cat([p.flatten() for p in run.ctx.modules.parameters()]) for run in (exact, low))
    assert two.dtype == torch.float32
    assert torch.isfinite(two).all()
    assert not torch.equal(one, two), "the precision had no effect"
    assert torch.nn.functional.cosine_similarity(one, two, dim=0) > 0.99


def test_float16_scales_the_loss_and_keeps_the_scale_in_its_state(tiny):
    learner = trained(tiny, "float16")
    assert learner.ctx.scaler.get_scale() > 1
    state = learner.state_dict()
    state["scaler"]["scale"] = 4.0
    learner.load_state_dict(state)
    assert learner.ctx.scaler.get_scale() == 4.0
    assert not new_scaler(torch.device("cpu"), "bfloat16").is_enabled()


def test_convolutions_run_in_low_precision():
    layer = torch.nn.Conv2d(1, 1, 1)
    with autocast(torch.device("cpu"), "bfloat16"):
        assert layer(torch.ones(1, 1, 2, 2)).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert layer(torch.ones(1, 1, 2, 2)).dtype == torch.float32


def test_a_compiled_encoder_keeps_the_names_of_its_weights(tiny, monkeypatch):
    calls = []

    def compiled(function, *arguments, **options):
        calls.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    plain, fast = trained(tiny), trained(tiny, compiled=True)
    assert len(calls) == 3, "the network and, after each task, the previous one"
    for name, value in plain.ctx.modules.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, fast.ctx.modules.state_dict()[name]), name


@pytest.mark.parametrize("method", ["co2l", "er"])
def test_a_step_never_reads_a_value_from_the_device(method, tiny, monkeypatch):
    """On the meta device there are no values: whatever reads one (item, nonzero, a copy to the CPU) is an error."""
    resolved = tiny(method, ("gplasc",))
    stream = open_configured_stream(resolved, None)
    known = build_learner(resolved.config, stream)
    known.learn_task(stream[0])  # on the CPU, for a memory
    monkeypatch.setattr(
        torch, "autocast", lambda *_, **__: contextlib.nullcontext()
    )  # the meta device has none
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda _: torch.bfloat16)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    learner = build_learner(resolved.config, stream, device="meta")
    learner.ctx.memory.load_state_dict(known.ctx.memory.state_dict())
    learner.ctx.classes_per_task, learner.position.task = [2], 1
    learner.ctx.keep_previous()
    learner.enter(stream[1], past=stream[:1])
    learner.plugins[0].criterion._inspected.add(1)  # the first step of a task looks at the features once
    learner.ctx.modules.train()
    terms = learner.step(learner.ctx.pool.take(torch.arange(0, len(learner.ctx.pool), 4)))
    assert terms.keys() > {"range", "position", "distill"}
    assert all(term.device.type == "meta" for term in terms.values())
    with pytest.raises(RuntimeError, match="meta"):
        next(iter(terms.values())).item()
