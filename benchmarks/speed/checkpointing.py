"""Checkpoints: their share of long runs at the default interval."""

from __future__ import annotations

import statistics
import tempfile
from functools import partial
from pathlib import Path

import torch
from benchmarks.speed.clock import seconds
from benchmarks.speed.figure import Figure
from benchmarks.speed.steps import SAVE_EVERY, learner_in_second_task, step_sizes

from gplasc.learning.callbacks import Checkpoint


def measure_checkpoints(quick: bool) -> list[Figure]:
    """Measure a checkpoint against the interval."""
    figures = []
    for size in step_sizes(quick):
        learner = learner_in_second_task("co2l", ("gplasc",), size, buffer=500)
        learner.step(learner.ctx.pool.take(torch.arange(8)))
        with tempfile.TemporaryDirectory() as folder:
            save = partial(Checkpoint(Path(folder)).save, learner)
            spent = statistics.median(seconds(save) for _ in range(3))
        name = f"one a minute, co2l+gplasc, width {size.width}"
        figures.append(Figure("checkpoints", name, 100 * spent / SAVE_EVERY, 1.0, unit="%"))
    return figures
