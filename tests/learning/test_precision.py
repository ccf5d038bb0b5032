"""The precision "auto": which one it stands for, that runs keep theirs, and what never runs in less than float32."""

import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gplasc._io.display import Display
from gplasc.learning import Callback
from gplasc.learning.devices import choose_precision, computes_bfloat16
from gplasc.runs import spec
from gplasc.runs.execute import execute
from gplasc.runs.spec import RunRequest
from gplasc.runs.workspace import Workspace
from gplasc.settings.components import list_methods
from gplasc.study.cell import Cell
from gplasc.study.study import Study

WIDE = {"model.width": 32}  # the small encoder gains from bfloat16 at this width


@pytest.fixture
def machine(monkeypatch):
    """Return a function that makes this a machine with or without bfloat16."""

    def become(native):
        monkeypatch.setattr(spec, "computes_bfloat16", lambda device: native)

    return become


@pytest.mark.parametrize(
    ("encoder", "width", "low"),
    [
        ("resnet18", 64, True),
        ("resnet18", 16, True),
        ("resnet18", 8, False),
        ("resnet10-fast", 16, True),
        ("small", 32, True),
        ("small", 4, False),
        ("mlp", 100, False),
        ("mine.py:encoder", 64, False),
        ("object:ResNet", 64, False),
    ],
)
def test_an_encoder_gains_from_bfloat16_by_a_fixed_table(encoder, width, low):
    chosen = choose_precision(encoder, width, trained=True, native=True)
    assert chosen == ("bfloat16" if low else "float32")
    assert choose_precision(encoder, width, trained=True, native=False) == "float32"
    assert choose_precision(encoder, width, trained=False, native=True) == "float32"


@pytest.mark.parametrize(
    ("device", "processor", "capability", "native"),
    [
        ("cpu", True, None, True),
        ("cpu", False, None, False),
        ("cuda", False, (8, 0), True),
        ("cuda:1", False, (9, 0), True),
        ("cuda", True, (7, 5), False),
        ("mps", True, None, False),
    ],
)
def test_devices_that_compute_bfloat16(device, processor, capability, native, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: processor)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert computes_bfloat16(device) is native


@pytest.mark.parametrize(
    ("stream", "method", "scale", "settings", "low"),
    [
        ("seq-fashion", "er", "cpu", {}, True),
        ("seq-cifar10", "co2l", "cpu", {}, True),
        ("seq-fashion", "er", "smoke", {}, False),
        ("seq-fashion", "er", "smoke", WIDE, True),
        ("seq-fashion", "er", "paper", {}, False),
        ("seq-fashion", "er", "paper", {"train.precision": "auto"}, True),
        ("seq-fashion", "er", "cpu", {"train.precision": "float32"}, False),
        ("seq-mnist", "er", "cpu", {"model.encoder": "mlp", "model.width": 100}, False),
        ("seq-fashion", "er", "cpu", {"model.encoder_lr": 0}, False),
        ("features:somewhere", "ncm", "cpu", {}, False),
    ],
)
def test_what_a_request_resolves_to(stream, method, scale, settings, low, machine):
    request = RunRequest(stream, method, scale=scale, settings=settings)
    plain = RunRequest(stream, method, scale=scale, settings={**settings, "train.precision": "float32"})
    machine(False)
    without = request.resolve()
    assert without.config.train.precision == "float32"
    assert without.run_id == plain.resolve().run_id
    machine(True)
    resolved = request.resolve()
    assert resolved.config.train.precision == ("bfloat16" if low else "float32")
    assert (resolved.run_id != without.run_id) is low
    assert plain.resolve().run_id == without.run_id
    default = "float32" if scale == "paper" else "auto"
    is_auto = settings.get("train.precision", default) == "auto"
    assert resolved.sources["train.precision"].startswith("auto") is is_auto


class PowerCut(Callback):
    """Ends the run in its second task."""

    def on_task_begin(self, learner):
        if learner.ctx.task.index == 1:
            raise RuntimeError("power cut")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("finished", [True, False])
def test_a_run_keeps_its_precision_on_another_machine(first, finished, machine, tiny, tmp_path):
    def compute(*callbacks):
        workspace = Workspace(tmp_path, device="cpu", save_steps=1)
        return execute(tiny("er", **WIDE), workspace, callbacks=callbacks, display=Display())

    machine(first)
    if finished:
        compute()
    else:
        with pytest.raises(RuntimeError, match="power cut"):
            compute(PowerCut())
    machine(not first)
    result = compute()
    assert [path.name for path in tmp_path.iterdir()] == [result.run_id]
    assert result.record.flat["train.precision"] == ("bfloat16" if first else "float32")
    assert result.record.sources["train.precision"].startswith("auto")


@pytest.mark.parametrize("native", [True, False])
def test_a_study_has_one_precision_wherever_its_runs_are_computed(native, machine, tiny, tmp_path):
    def study():
        cells = [Cell({"row": "er"}, tiny("er", seed=seed, **WIDE)) for seed in (0, 1, 2)]
        return Study(cells, Workspace(tmp_path, device="cpu")).cells

    machine(native)
    planned = study()
    machine(not native)
    result = execute(planned[1].spec, Workspace(tmp_path, device="cpu"), display=Display())  # by a worker
    assert result.record.flat["train.precision"] == ("bfloat16" if native else "float32")
    assert [cell.run_id for cell in study()] == [cell.run_id for cell in planned], "planned again elsewhere"


class Spy(TorchDispatchMode):
    """Notes the functions of torch that our code outside the models calls with bfloat16 numbers."""

    def __init__(self):
        super().__init__()
        self.calls = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if any(x.dtype == torch.bfloat16 for x in tensors):
            frame = sys._getframe(1)
            while "/gplasc/" not in frame.f_code.co_filename:
                frame = frame.f_back
            backward = frame.f_code.co_name in ("step", "gradient")  # of the networks, and of what moves rows
            if "/gplasc/models/" not in frame.f_code.co_filename and not backward:
                self.calls.add(function._schema.name.removeprefix("aten::"))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("method", "plugin"),
    [*((method, "gplasc") for method in list_methods()), ("co2l", "gplasc-plus"), ("er", "gplasc-plus")],
)
def test_only_the_networks_compute_in_bfloat16(method, plugin, tiny, new_learner):
    """Losses, gradients of GEM and A-GEM, GSS's cosines, herding, probes and statistics get float32 copies."""
    learner = new_learner(tiny(method, (plugin,), **{"train.precision": "bfloat16"}))
    spy = Spy()
    with spy:
        for index in range(2):
            learner.learn_task(learner.stream[index], past=learner.stream[:index])
    assert spy.calls <= {"_to_copy", "detach", "slice", "index", "cat", "masked_fill"}
    assert all(p.dtype == torch.float32 for p in learner.ctx.modules.parameters())
    assert not any(value.dtype == torch.bfloat16 for value in learner.ctx.memory.rows().values())
