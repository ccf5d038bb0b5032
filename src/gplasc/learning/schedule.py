"""Learning rates as functions of the position in training."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gplasc.config import Config, Train
from gplasc.learning.batch import PoolKind


def cosine(lr: float, floor: float, progress: float) -> float:
    """Anneal from lr at progress 0 to floor at progress 1."""
    return floor + (lr - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0


def epochs_of(train: Train, task: int) -> int:
    """Return the epochs of a task, counted from 0."""
    return (train.first_epochs or train.epochs) if task == 0 else train.epochs


def learning_rate(train: Train, lr: float, epoch: int, epochs: int, part: float) -> float:
    """Return the learning rate in an epoch, counted from 0, of which ``part`` in [0, 1) is over.

    Warm-up is linear, step by step, toward the value that the cosine has when it ends; the cosine changes once an
    epoch and counts epochs from 1, as in the code of SupCon and Co2L. A warm-up takes at most half of the epochs.
    """
    floor = lr * train.lr_decay**3 if train.schedule == "cosine" else lr
    warm = min(train.warmup_epochs, epochs // 2)
    if epoch < warm:
        target = cosine(lr, floor, warm / epochs)
        start = min(train.warmup_from, target)
        return start + (target - start) * (epoch + part) / warm
    return cosine(lr, floor, (epoch + 1) / epochs)


def pool_sizes(config: Config, pool: PoolKind, sizes: Sequence[int]) -> list[int]:
    """Return how many samples an epoch of each task visits, for a memory that is full after the first task.

    Args:
        config: The settings.
        pool: What the method draws batches from.
        sizes: The number of training samples of each task.
    """
    found = []
    for task, size in enumerate(sizes):
        past = sum(sizes[:task])
        found.append(size + {"everything": past, "current": 0}.get(pool, min(config.buffer, past)))
    return found


def steps_per_task(config: Config, pool: PoolKind, sizes: Sequence[int]) -> list[int]:
    """Return how many optimizer steps each task takes, see `pool_sizes`."""
    return [
        epochs_of(config.train, task) * -(-size // config.train.batch)
        for task, size in enumerate(pool_sizes(config, pool, sizes))
    ]
