"""Checkpoints: their share of long runs at the default interval, and of short ones."""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from benchmarks.speed.clock import seconds
from benchmarks.speed.figure import Figure
from benchmarks.speed.steps import SAVE_EVERY, learner_in_second_task, step_sizes

from gplasc.learning import Learner
from gplasc.learning.callbacks.checkpoint import Checkpoint
from gplasc.learning.callbacks.terms import FiniteCheck, TermLog
from gplasc.runs.build import build_learner
from gplasc.runs.spec import RunRequest
from gplasc.streams import open_stream


def measure_checkpoints(quick: bool) -> list[Figure]:
    """Measure a checkpoint of large networks against the interval, and all checkpoints of a run of short tasks."""
    figures = []
    for size in step_sizes(quick):
        learner = learner_in_second_task("co2l", ("gplasc",), size, buffer=500)
        learner.step(learner.ctx.pool.take(torch.arange(8)))
        with tempfile.TemporaryDirectory() as folder:
            save = partial(Checkpoint(Path(folder)).save, learner)
            spent = statistics.median(seconds(save) for _ in range(3))
        name = f"one a minute, co2l+gplasc, width {size.width}"
        figures.append(Figure("checkpoints", name, 100 * spent / SAVE_EVERY, 1.0, unit="%"))
    return [*figures, _short_run(2 if quick else 10)]


class _TimedCheckpoint(Checkpoint):
    """Notes the processor time of every checkpoint."""

    spent = 0.0

    def save(self, learner: Learner) -> None:
        """Write a checkpoint."""
        start = time.process_time()
        super().save(learner)
        self.spent += time.process_time() - start


def _short_run(tasks: int) -> Figure:
    name = f"synthetic:tasks={tasks}"
    config = (
        RunRequest(name, "co2l", ("gplasc",), scale="smoke", settings={"model.features": "signed"})
        .resolve()
        .config
    )
    stream = open_stream(name)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = _TimedCheckpoint(Path(folder))
        callbacks = [FiniteCheck(), TermLog(Path(folder) / "terms.jsonl"), checkpoint]
        learner = build_learner(config, stream, callbacks=callbacks)
        whole = seconds(lambda: learner.learn(stream))
    share = 100 * checkpoint.spent / whole
    return Figure("checkpoints", f"smoke run of {tasks} tasks, co2l+gplasc", share, 1.0, unit="%")
