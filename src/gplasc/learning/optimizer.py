"""The optimizers of a run, with a learning rate per module."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from gplasc.learning.schedule import learning_rate
from gplasc.models import Network
from gplasc.settings.types import Train


@dataclass(frozen=True)
class ModuleRate:
    """The learning rate of one module."""

    lr: float
    """The base learning rate, in place of ``train.lr``."""
    warmup_from: float | None = None
    """Where its warm-up starts; None: at ``train.warmup_from``."""


class RunOptimizer(Optimizer):
    """An optimizer with a learning rate per group, which does not import ``torch._dynamo``.

    The wrappers of PyTorch's optimizers import it when they are first called, which takes two seconds of processor
    time. They matter only if the optimizer itself is compiled. The functions without them are the same computation.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)

    @staticmethod
    def of(
        modules: nn.ModuleDict, train: Train, rates: Mapping[str, ModuleRate], *, encoder_lr: float
    ) -> RunOptimizer:
        """Return the optimizer of all modules; ``rates`` differ from ``train.lr``, ``encoder_lr`` is a factor."""
        groups: list[dict[str, Any]] = []
        for name, module in modules.items():
            rate = rates.get(name, ModuleRate(train.lr))
            params = list(module.parameters())
            groups.append({"params": params, "base_lr": rate.lr, "warmup_from": rate.warmup_from})
        if encoder_lr not in (0, 1):  # an encoder with factor 0 is frozen and has no gradients
            network = cast(Network, modules["network"])
            slow = dict.fromkeys(network.encoder.parameters())
            groups[0]["params"] = [p for p in network.parameters() if p not in slow]
            groups.append({"params": list(slow), "base_lr": train.lr * encoder_lr, "warmup_from": None})
        if train.optimizer == "adamw":
            return _AdamW(groups, lr=train.lr, weight_decay=train.weight_decay, foreach=True)
        decay = train.weight_decay
        return SGD(groups, lr=train.lr, momentum=train.momentum, weight_decay=decay, foreach=True)

    def set_learning_rate(self, train: Train, epoch: int, epochs: int, part: float) -> float:
        """Set the learning rate of every group, see `learning_rate`, and return that of the network."""
        for group in self.param_groups:
            start = group["warmup_from"]
            group["lr"] = learning_rate(train, group["base_lr"], epoch, epochs, part, warmup_from=start)
        return float(self.param_groups[0]["lr"])

    def load_grown(self, old: Optimizer) -> None:
        """Take over the state of an optimizer whose parameters had fewer rows; that of new rows is 0."""
        state = old.state_dict()
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, entry in state["state"].items():
            for name, value in entry.items():
                if isinstance(value, torch.Tensor) and value.ndim and value.shape != parameters[number].shape:
                    entry[name] = torch.zeros_like(parameters[number])
                    entry[name][: len(value)] = value
        self.load_state_dict(state)


class SGD(RunOptimizer, torch.optim.SGD):
    """`torch.optim.SGD` without ``torch._dynamo``.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = SGD([weight], lr=0.5)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight.tolist()
    [0.0, 0.0]
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


class _AdamW(RunOptimizer, torch.optim.AdamW):
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
