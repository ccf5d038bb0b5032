"""The model file of docs/integrations.md, with stand-ins of the few names of Mammoth that it uses."""

import argparse
import re
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


class ContinualModel(nn.Module):
    """The calls that Mammoth's training loop makes, and the attributes it sets before them."""

    def __init__(self, backbone, loss, args, transform, dataset=None) -> None:
        super().__init__()
        self.net, self.loss, self.args, self.transform = backbone, loss, args, transform
        self.opt = torch.optim.SGD(self.net.parameters(), lr=args.lr)
        self.device = "cpu"
        self.current_task = 0

    def meta_begin_task(self, dataset) -> None:
        self.n_classes_current_task = dataset.N_CLASSES_PER_TASK
        self.begin_task(dataset)

    def meta_observe(self, *batch, epoch) -> float:
        return self.observe(*batch, epoch=epoch)

    def meta_end_task(self, dataset) -> None:
        self.end_task(dataset)
        self.current_task += 1


class Buffer:
    """Keeps the first samples; `get_data` returns augmented examples and labels."""

    def __init__(self, buffer_size) -> None:
        self.size = buffer_size
        self.examples, self.labels = torch.empty(0, 3, 4, 4), torch.empty(0, dtype=torch.int64)

    def is_empty(self) -> bool:
        return len(self.labels) == 0

    def add_data(self, examples, labels=None) -> None:
        self.examples = torch.cat([self.examples, examples])[: self.size]
        self.labels = torch.cat([self.labels, labels])[: self.size]

    def get_data(self, size, transform=None, return_index=False, device=None):
        rows = slice(0, size)
        return torch.stack([transform(x) for x in self.examples[rows]]), self.labels[rows]


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.ReLU())
        self.classifier = nn.Linear(8, 4)

    def forward(self, x, returnt="out"):
        features = self.body(x)
        outputs = self.classifier(features)
        return {"out": outputs, "features": features, "both": (outputs, features)}[returnt]


def add_rehearsal_args(parser) -> None:
    parser.add_argument("--buffer_size", type=int, required=True)
    parser.add_argument("--minibatch_size", type=int, default=4)


@pytest.fixture
def model_class(monkeypatch):
    contents = {
        "models.utils.continual_model": {"ContinualModel": ContinualModel},
        "utils.args": {"ArgumentParser": argparse.ArgumentParser, "add_rehearsal_args": add_rehearsal_args},
        "utils.buffer": {"Buffer": Buffer},
    }
    for name in ("models", "models.utils", "utils", *contents):
        module = types.ModuleType(name)
        module.__dict__.update(contents.get(name, {}))
        monkeypatch.setitem(sys.modules, name, module)
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = [block for block in blocks if "class ErGplasc" in block]
    names: dict[str, object] = {"__name__": "models.er_gplasc"}
    exec(compile(code, str(PAGE), "exec"), names)
    return names["ErGplasc"]


@pytest.mark.filterwarnings("ignore")  # notes about features of an untrained encoder
def test_two_tasks(model_class):
    torch.manual_seed(0)
    parser = model_class.get_parser(argparse.ArgumentParser())
    args = parser.parse_args(["--buffer_size", "6"])
    args.lr = 0.1
    dataset = types.SimpleNamespace(N_TASKS=2, N_CLASSES_PER_TASK=2)
    model = model_class(Backbone(), nn.functional.cross_entropy, args, lambda x: x + 0.1, dataset=dataset)
    weights = set(model.state_dict())
    for task in range(2):
        model.meta_begin_task(dataset)
        seen = []
        compute = model.gplasc.terms

        def watched(x, y, *, features, compute=compute, seen=seen):
            terms = compute(x, y, features=features)
            seen.append((x, y, {name: float(value.detach()) for name, value in terms.items()}))
            return terms

        model.gplasc.terms = watched
        for step in range(4):
            y = torch.arange(6) % 2 + 2 * task
            x = torch.randn(6, 3, 4, 4) + y[:, None, None, None]
            before = [weight.clone() for weight in model.net.parameters()]
            found = model.meta_observe(x, y, x, epoch=step)
            its_x, its_y, terms = seen[-1]
            again = Backbone()  # the loss with the weights before the step
            with torch.no_grad():
                for weight, value in zip(again.parameters(), before, strict=True):
                    weight.copy_(value)
                expected = nn.functional.cross_entropy(again(its_x), its_y) + sum(terms.values())
            assert found == pytest.approx(float(expected), rel=1e-5)
            assert len(its_y) == 6 + (
                4 if task or step else 0
            )  # Mammoth's buffer has 4 of its 6 in the batch
        model.gplasc.terms = compute
        model.meta_end_task(dataset)
        assert (seen[-1][2]["distill"] > 0) is bool(task)
    assert model.gplasc.tasks_done == 2
    assert set(model.state_dict()) == weights
