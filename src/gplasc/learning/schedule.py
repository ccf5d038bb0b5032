"""The course of training: epochs and steps of each task, and the learning rate at every position."""

import math
from collections.abc import Sequence

from gplasc.learning.batch import PoolKind
from gplasc.settings.types import Config, Train


def epochs_of(train: Train, task: int) -> int:
    """Return the epochs of a task, counted from 0."""
    return (train.first_epochs or train.epochs) if task == 0 else train.epochs


def learning_rate(
    train: Train, lr: float, epoch: int, epochs: int, part: float, *, warmup_from: float | None = None
) -> float:
    """Return the learning rate after ``epoch`` of a task's ``epochs`` and a ``part`` of the present one, in [0, 1).

    Warm-up is linear, step by step, toward the schedule's value at its end, and takes at most half of the epochs. With
    ``train.warmup_target`` "epochs" that value is the one of a task of ``train.epochs`` epochs, as in the code of Co2L
    and CCLIS. The cosine changes once an epoch and counts from 1, as in the code of SupCon and Co2L.
    """
    warm = min(train.warmup_epochs, epochs // 2)
    if epoch < warm:
        target_epochs = train.epochs if train.warmup_target == "epochs" else epochs
        target = _scheduled(train, lr, min(warm, target_epochs // 2), target_epochs)
        start = min(train.warmup_from if warmup_from is None else warmup_from, target)
        return start + (target - start) * (epoch + part) / warm
    return _scheduled(train, lr, epoch + 1, epochs)


def _scheduled(train: Train, lr: float, epoch: int, epochs: int) -> float:
    """Return the learning rate without warm-up in an epoch that is counted from 1."""
    if train.schedule == "multistep":
        return lr * train.lr_decay ** sum(epoch > milestone for milestone in train.milestones)
    floor = lr * train.lr_decay**3 if train.schedule == "cosine" else lr
    return floor + (lr - floor) * (1.0 + math.cos(math.pi * (epoch / epochs))) / 2.0


def pool_sizes(config: Config, pool: PoolKind, sizes: Sequence[int]) -> list[int]:
    """Return how many samples an epoch of each task visits; ``sizes`` are those of the tasks' training data."""
    pools = []
    for task, size in enumerate(sizes):
        past = sum(sizes[:task])
        pools.append(size + {"everything": past, "current": 0}.get(pool, min(config.buffer, past)))
    return pools


def steps_per_task(config: Config, pool: PoolKind, sizes: Sequence[int]) -> list[int]:
    """Return how many optimizer steps each task takes, see `pool_sizes`."""
    train, pools = config.train, pool_sizes(config, pool, sizes)
    return [epochs_of(train, task) * -(-size // train.batch) for task, size in enumerate(pools)]
