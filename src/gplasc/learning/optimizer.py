"""The optimizer of a run: SGD with a learning rate per module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from gplasc.config import Train
from gplasc.learning.schedule import learning_rate


@dataclass(frozen=True)
class ModuleRate:
    """The learning rate of one module."""

    lr: float
    """The base learning rate, in place of ``train.lr``."""
    warmup_from: float | None = None
    """Where its warm-up starts; None: at ``train.warmup_from``."""


def new_optimizer(
    modules: nn.ModuleDict, train: Train, learning_rates: Mapping[str, ModuleRate]
) -> torch.optim.SGD:
    """Return SGD over all modules.

    Args:
        modules: Everything trainable, by name.
        train: Learning rate, momentum and weight decay.
        learning_rates: Learning rates of single modules that differ from ``train.lr``.
    """
    groups = []
    for name, module in modules.items():
        rate = learning_rates.get(name, ModuleRate(train.lr))
        groups.append(
            {"params": list(module.parameters()), "base_lr": rate.lr, "warmup_from": rate.warmup_from}
        )
    return torch.optim.SGD(
        groups, lr=train.lr, momentum=train.momentum, weight_decay=train.weight_decay, foreach=True
    )


def set_learning_rate(
    optimizer: torch.optim.SGD, train: Train, epoch: int, epochs: int, part: float
) -> float:
    """Set the learning rate of every group, see `learning_rate`, and return that of the network."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(
            train, group["base_lr"], epoch, epochs, part, warmup_from=group["warmup_from"]
        )
    return float(optimizer.param_groups[0]["lr"])


def load_grown(optimizer: torch.optim.SGD, old: torch.optim.SGD) -> None:
    """Take over the momentum of an optimizer whose parameters had fewer rows; new rows start without momentum."""
    state = old.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, entry in state["state"].items():
        momentum = entry.get("momentum_buffer")
        if momentum is not None and momentum.shape != parameters[number].shape:
            padded = torch.zeros_like(parameters[number])
            padded[: len(momentum)] = momentum
            entry["momentum_buffer"] = padded
    optimizer.load_state_dict(state)
