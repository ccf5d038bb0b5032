"""Learning rates as functions of the position in training."""

from __future__ import annotations

import math

from gplasc.config import Train


def cosine(lr: float, floor: float, progress: float) -> float:
    """Anneal from lr at progress 0 to floor at progress 1."""
    return floor + (lr - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0


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
