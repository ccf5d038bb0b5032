"""Precision, compilation, and steps that never synchronize the device: what can be shown without a GPU."""

import contextlib
import functools
import os
from unittest import mock

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gplasc._io.transfer import transfer
from gplasc.learning.devices import Hardware
from gplasc.runs.build import build_learner, open_inputs


def trained(tiny, precision="float32", compiled=False):
    """Learn two tasks; a value that is not finite would end the run."""
    resolved = tiny("co2l", ("gplasc",), **{"train.lr": 0.05, "train.precision": precision})
    stream, _ = open_inputs(resolved, None)
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
    assert learner.hardware.scaler.get_scale() > 1
    state = learner.state_dict()
    state["scaler"]["scale"] = 4.0
    learner.load_state_dict(state)
    assert learner.hardware.scaler.get_scale() == 4.0
    assert not Hardware("cpu", "bfloat16").scaler.is_enabled()


def test_convolutions_run_in_low_precision():
    layer = torch.nn.Conv2d(1, 1, 1)
    with Hardware("cpu", "bfloat16").autocast():
        assert layer(torch.ones(1, 1, 2, 2)).dtype == torch.bfloat16
    with Hardware("cpu", "float32").autocast():
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_compiled_run_learns_nearly_the_same(backend, tiny, monkeypatch):
    """The default backend, inductor, writes C++ here; compiling it takes a minute."""
    from torch._dynamo.utils import counters

    if backend == "inductor" and not os.environ.get("GPLASC_TEST_COMPILE"):
        pytest.skip("run with GPLASC_TEST_COMPILE=1; needs a C++ compiler")
    plain = trained(tiny)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    torch.compiler.reset()
    try:
        fast = trained(tiny, compiled=True)
        assert counters["stats"]["unique_graphs"] >= 2, "the network in training mode and in evaluation mode"
        assert not counters["graph_break"]
    finally:
        torch.compiler.reset()
    one, two = (torch.cat([p.flatten() for p in run.ctx.modules.parameters()]) for run in (plain, fast))
    assert torch.nn.functional.cosine_similarity(one, two, dim=0) > 0.999


def test_a_tensor_goes_to_a_gpu_from_pinned_memory_without_waiting():
    x = mock.Mock(device=torch.device("cpu"))
    moved = transfer(x, torch.device("cuda"))
    x.pin_memory.return_value.to.assert_called_once_with(torch.device("cuda"), non_blocking=True)
    assert moved is x.pin_memory.return_value.to.return_value


class Traffic(TorchDispatchMode):
    """Refuses every operation that would make the CPU wait for the device, here the meta device.

    That is whatever reads a value from the device, and a copy to it that blocks.
    """

    def __init__(self):
        super().__init__()
        self.copies = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = {x.device.type for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        found = function(*args, **kwargs)
        results = {x.device.type for x in tree_leaves(found) if isinstance(x, torch.Tensor)}
        name = function.overloadpacket.__name__
        if "meta" in given:
            assert "cpu" not in results, f"{name} copies from the device"
            assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "unique"), name
        if name == "_to_copy" and given == {"cpu"} and results == {"meta"}:
            assert kwargs.get("non_blocking"), "a copy to the device blocks"
            self.copies += 1
        if name == "copy_" and "meta" in results and args[1].device.type == "cpu" and args[1].ndim:
            assert kwargs.get("non_blocking") or args[2:] == (True,), "a copy to the device blocks"
        return found


class Literals(TorchFunctionMode):
    """Refuses tensors that are made of Python numbers on the device, which are copied there and waited for."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.tensor, torch.as_tensor):
            assert torch.device(kwargs.get("device") or "cpu").type == "cpu", (
                "numbers are copied to the device"
            )
        return function(*args, **kwargs)


@pytest.mark.parametrize("method", ["co2l", "er"])
def test_a_step_never_waits_for_the_device(method, tiny, monkeypatch):
    """On the meta device there are no values, so that whatever reads one is an error as well."""
    resolved = tiny(method, ("gplasc",))
    stream, _ = open_inputs(resolved, None)
    known = build_learner(resolved.config, stream)
    known.learn_task(stream[0])  # on the CPU, for a memory
    # The meta device has no autocast and no pinned memory.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda _: torch.bfloat16)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: x)
    monkeypatch.setattr("gplasc._io.transfer._PINNED", {"meta"})
    learner = build_learner(resolved.config, stream, device="meta")
    learner.ctx.memory.load_state_dict(known.ctx.memory.state_dict())
    learner.ctx.classes_per_task, learner.position.task = [2], 1
    learner.keep_previous()
    learner.enter(stream[1], past=stream[:1])
    learner.plugins[0].monitor._inspected.add(1)  # the first step of a task looks at the features once
    learner.ctx.modules.train()
    with Traffic() as traffic, Literals():
        terms = learner.step(learner.ctx.pool.take(torch.arange(0, len(learner.ctx.pool), 4)))
    assert traffic.copies > 5
    assert terms.keys() > {"range", "position", "distill"}
    assert all(term.device.type == "meta" for term in terms.values())


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x.cpu(),
        lambda x: x[x > 0],
        lambda x: torch.ones(3).to(x.device),
        lambda x: torch.tensor([1.0, 2.0], device=x.device),
    ],
)
def test_whatever_waits_for_the_device_is_seen(wait):
    x = torch.ones(3, device="meta")
    with pytest.raises((AssertionError, RuntimeError, NotImplementedError)), Traffic(), Literals():
        wait(x)
