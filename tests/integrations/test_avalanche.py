"""Two experiences with Avalanche's own strategy, alone and beside its replay plug-in.

Tested against avalanche-lib 0.6: `SupervisedPlugin`, the strategy `Naive` (a `SupervisedTemplate`), `ReplayPlugin` and
`benchmark_from_datasets`. Avalanche imports torchvision and other packages for things that are not used here; where
they are absent, or do not fit the installed torch, empty modules take their place.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from gplasc import GPLASC
from gplasc.loop import GPLASCLoop

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("avalanche") is None,
    reason="Avalanche is not installed: pip install avalanche-lib",
)
_USED = {
    "avalanche.core": ("SupervisedPlugin",),
    "avalanche.benchmarks": ("benchmark_from_datasets",),
    "avalanche.benchmarks.utils": ("AvalancheDataset", "DataAttribute"),
    "avalanche.evaluation.metrics": ("loss_metrics",),
    "avalanche.training.plugins": ("EvaluationPlugin", "ReplayPlugin"),
    "avalanche.training.supervised": ("Naive",),
}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Avalanche's advice about loggers, and what it imports
        yield


class _Absent(types.ModuleType):
    """A module whose every name is an empty class."""

    __path__ = ()

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (), {"__init__": lambda self, *_, **__: None}))
        return getattr(self, name)


class _AbsentPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nothing else found of the packages that Avalanche imports."""

    names = ("GPUtil", "gdown", "psutil", "pytorchcv", "qpsolvers", "torchvision", "wandb")

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Absent(spec.name)

    def exec_module(self, module):
        pass


@pytest.fixture
def avalanche(monkeypatch):
    """What the test uses of Avalanche, by name."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, _AbsentPackages()])
    if importlib.util.find_spec("torchvision") is not None:
        monkeypatch.setitem(sys.modules, "torchvision._meta_registrations", _Absent("absent"))
    try:
        modules = {name: importlib.import_module(name) for name in _USED}
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"Avalanche cannot be imported here: {error}")
    yield types.SimpleNamespace(
        **{name: getattr(modules[module], name) for module, names in _USED.items() for name in names}
    )
    ours = ("avalanche", "gplasc.integrations.avalanche", *_AbsentPackages.names)
    for name in [name for name in sys.modules if name not in before and name.startswith(ours)]:
        del sys.modules[name]  # no other test finds an empty module


def experience(avalanche, task: int):
    draw = torch.Generator().manual_seed(task)
    y = torch.arange(16) % 2 + 2 * task
    data = TensorDataset(torch.randn(16, 6, generator=draw) + y[:, None], y)
    labels = avalanche.DataAttribute(y.tolist(), "targets")
    zeros = avalanche.DataAttribute([0] * 16, "targets_task_labels", use_in_getitem=True)
    return avalanche.AvalancheDataset([data], data_attributes=[labels, zeros])


@pytest.mark.parametrize("replay", [False, True])
def test_terms_are_added_to_the_loss_of_a_strategy(avalanche, replay):
    from gplasc.integrations.avalanche import GPLASCPlugin

    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8))
    model = nn.Sequential(encoder, nn.Linear(8, 4))
    loop = GPLASCLoop(GPLASC(num_tasks=2, feature_dim=8), encoder, memory=6)
    seen = []
    compute = loop.terms

    def watched(x, y):
        seen.append({"y": y, **compute(x, y)})
        return {name: value for name, value in seen[-1].items() if name != "y"}

    loop.terms = watched
    losses = []

    class Watch(avalanche.SupervisedPlugin):
        def after_backward(self, strategy, *args, **kwargs):
            plain = nn.functional.cross_entropy(strategy.mb_output, strategy.mb_y)
            losses.append((strategy.loss.detach().squeeze(), plain.detach()))

    plugins = [GPLASCPlugin(loop), Watch(), *([avalanche.ReplayPlugin(mem_size=6)] if replay else [])]
    strategy = avalanche.Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=8,
        train_epochs=2,
        plugins=plugins,
        evaluator=avalanche.EvaluationPlugin(avalanche.loss_metrics(minibatch=True)),
    )
    data = [experience(avalanche, task) for task in range(2)]
    benchmark = avalanche.benchmark_from_datasets(train=data)
    for one in benchmark.train_stream:
        strategy.train(one)
    assert loop.tasks_done == 2
    assert all(float(terms["distill"]) == 0 for terms in seen[:4])
    assert float(seen[-1]["distill"]) > 0
    assert bool((seen[-1]["y"] < 2).any()) is replay  # rows of the replay plug-in stand in the minibatch
    # The loss that the strategy differentiated is cross-entropy plus the terms.
    assert len(losses) == len(seen)
    for (total, plain), terms in zip(losses, seen, strict=True):
        added = sum(value.detach() for name, value in terms.items() if name != "y")
        torch.testing.assert_close(total, plain + added)
