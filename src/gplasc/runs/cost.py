"""What a run would cost: steps, parameters, memory, disk, and the time from a few measured steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from gplasc._io.text import duration
from gplasc.learning import Learner
from gplasc.learning.devices import check_device
from gplasc.learning.evaluator import evaluation_samples
from gplasc.learning.pool import order_batches
from gplasc.learning.schedule import epochs_of, pool_sizes, steps_per_task
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.spec import RunSpec
from gplasc.streams import Stream

_MEASURED = 3
_SHARE = 8  # samples of the first, short step
_LONG = 1.0  # seconds of a step from which on the short one must do


def measure_cost(
    spec: RunSpec, *, data_dir: str | Path | None = None, device: str | None = None
) -> tuple[float, str]:
    """Take a few steps of the first two tasks and extrapolate; return the seconds and a text with details.

    The linear probe's own optimizer steps are not counted; in the cached mode they are a small part.
    """
    config, device = spec.config, check_device(device)
    stream, encoder = open_inputs(spec, data_dir, device=device)
    learner = build_learner(config, stream, encoder=encoder, device=device)
    method, ctx, sizes = learner.method, learner.ctx, [len(task.train) for task in stream]
    pools = steps = [0] * len(sizes)
    step = [0.0, 0.0]  # seconds of one in the first task, and afterwards
    if method.trains:
        pools, steps = (count(config, method.pool, sizes) for count in (pool_sizes, steps_per_task))
        step = [_seconds_per_step(learner, stream, 0)] * 2
        if len(stream) > 1:
            learner.keep_previous()
            step[1] = _seconds_per_step(learner, stream, 1)
    images = sum(size * epochs_of(config.train, index) for index, size in enumerate(pools))
    rows = stream[0].train.take(torch.arange(min(256 if step[0] < _LONG else 16, sizes[0])))
    start = time.perf_counter()
    ctx.features(rows)
    forward = (time.perf_counter() - start) / len(rows)
    views = config.probe.views if config.probe.mode == "cached" else config.probe.epochs
    tested = sum(len(evaluation_samples(task, config)) * (len(stream) - task.index) for task in stream)
    seconds = {
        "training": step[0] * steps[0] + step[1] * sum(steps[1:]),
        "probe features": 0.0 if ctx.network.classifier else forward * views * sum(pools),
        "evaluation": forward * tested,
    }
    weights = sum(value.numel() * value.element_size() for value in ctx.network.state_dict().values())
    copies = 2 + learner.needs_previous  # weights, momentum, previous model
    buffer = config.buffer * (math.prod(stream.image_shape) + 8)
    total, (first, later) = sum(seconds.values()), step
    details = {
        "run": f"{config.title} on {config.stream}, scale {config.scale} ({config.run_id})",
        "tasks": f"{len(stream)}, {stream.num_classes} classes, images {' x '.join(map(str, stream.image_shape))}",
        "steps": f"{sum(steps):,} ({steps[0]:,} in the first task), {images:,} images",
        "parameters": f"{sum(parameter.numel() for parameter in ctx.modules.parameters()):,}",
        "memory": f"{(weights * (copies + 1) + buffer) / 1e6:,.0f} MB for weights and buffer, without activations",
        "disk": f"{(2 * (weights * copies + buffer) + weights) / 1e6:,.0f} MB",
        "step": f"{1e3 * first:,.0f} ms in the first task, {1e3 * later:,.0f} ms afterwards (measured)",
        "time": f"{duration(total)} in all: "
        + ", ".join(f"{duration(part)} {name}" for name, part in seconds.items()),
    }
    return total, "\n".join(f"{name:<11}{text}" for name, text in details.items())


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """Give torch another number of threads for a while; None leaves it as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _seconds_per_step(learner: Learner, stream: Stream, task: int) -> float:
    learner.position.task = task
    learner.enter(stream[task], past=stream[:task])
    for component in learner.components:
        component.begin_task(learner.ctx)
    learner.ctx.modules.train()
    ctx = learner.ctx
    rows = order_batches(ctx.pool, "current", learner.config.train.batch, ctx.random["order"])[0]
    short = rows[:_SHARE]
    _seconds_of(learner, short, 1)  # the first step pays for allocations
    expected = _seconds_of(learner, short, 1) * len(rows) / len(short)
    if expected > _LONG:
        return expected
    _seconds_of(learner, rows, 1)
    return _seconds_of(learner, rows, _MEASURED)


def _seconds_of(learner: Learner, rows: Tensor, steps: int) -> float:
    """Return the mean time of steps with these rows of the pool."""
    batch = learner.ctx.pool.take(rows)
    start = time.perf_counter()
    for _ in range(steps):
        terms = learner.step(batch)
    float(next(iter(terms.values())))  # wait for the device
    return (time.perf_counter() - start) / steps
