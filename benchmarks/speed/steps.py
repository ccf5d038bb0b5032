"""Training steps: the plug-in's overhead, the efficiency of a whole step, and the cost of the previous model."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from benchmarks.speed.clock import Work, alternate, ratio, seconds
from benchmarks.speed.figure import Figure
from torch import Tensor

from gplasc.learning import Batch, Callback, Learner, Part
from gplasc.learning.callbacks.checkpoint import Checkpoint
from gplasc.learning.callbacks.terms import FiniteCheck, TermLog
from gplasc.runs.build import build_learner
from gplasc.runs.spec import RunRequest
from gplasc.streams import open_stream

FULL_WIDTH = 64
SAVE_EVERY = 60.0  # seconds, the default of `gplasc run`


@dataclass(frozen=True)
class StepSize:
    """The size of one measurement of steps.

    Args:
        width: Channels of the first stage of ResNet-18.
        images: Images of a batch; contrastive methods forward two views of each.
        rounds: Turns of each contender.
        pixels: Width and height of the images.
    """

    width: int
    images: int
    rounds: int
    pixels: int = 32


def step_sizes(quick: bool) -> tuple[StepSize, ...]:
    """Return full width and width 16, or something tiny."""
    return (StepSize(4, 8, 2, 8),) if quick else (StepSize(FULL_WIDTH, 16, 5), StepSize(16, 32, 9))


def measure_overhead(quick: bool) -> list[Figure]:
    """Measure steps of the second task with the plug-in against steps without it, on new views each time."""
    found = []
    for size in step_sizes(quick):
        bar = 1.02 if size.width == FULL_WIDTH else 1.05
        for method in ("co2l", "cclis"):
            base = learner_in_second_task(method, (), size)
            plus = learner_in_second_task(method, ("gplasc",), size)
            times = alternate({"base": stepper(base), "plus": stepper(plus)}, size.rounds)
            name = f"{method}+gplasc / {method}, width {size.width}"
            found.append(Figure("overhead", name, ratio(times, "plus", "base"), bar))
        found += _overhead_beside_replay(size, bar)
    return found


def _overhead_beside_replay(size: StepSize, bar: float) -> list[Figure]:
    """ER forwards no second view, so GPLASC adds two views and the previous model; the rest must cost nothing."""
    base, plus = learner_in_second_task("er", (), size), learner_in_second_task("er", ("gplasc",), size)
    sharing = learner_in_second_task("er", ("gplasc",), size, settings={"gplasc.share_views": True})
    batch = _a_batch(plus)
    own = plus.method.parts(batch, plus.ctx)
    views = [part for plugin in plus.plugins for part in plugin.parts(batch, own, plus.ctx).values()]

    def base_with_passes() -> None:
        base.step(batch)
        for part in views:
            bare_pass(base, part.x)
        teacher_pass(own["batch"])

    works = {
        "er": stepper(base),
        "er+gplasc": stepper(plus),
        "sharing": stepper(sharing),
        "passes": base_with_passes,
    }
    times = alternate(works, size.rounds)
    return [
        Figure("overhead", f"er+gplasc / er, width {size.width}", ratio(times, "er+gplasc", "er")),
        Figure(
            "overhead",
            f"er+gplasc with share_views / er, width {size.width}",
            ratio(times, "sharing", "er"),
        ),
        Figure(
            "overhead",
            f"er+gplasc / er with two more views and the previous model, width {size.width}",
            ratio(times, "er+gplasc", "passes"),
            bar,
        ),
    ]


def measure_efficiency(quick: bool) -> list[Figure]:
    """Measure the bare encoder against the steps of a real loop: augmentation, memory, logging, checkpoints."""
    found = []
    for size in step_sizes(quick):
        bar = 0.93 if size.width == FULL_WIDTH else 0.88
        value = _efficiency(size, 2 * size.rounds)
        found.append(
            Figure("efficiency", f"bare encoder / supcon step, width {size.width}", value, bar, "least")
        )
    return found


def _efficiency(size: StepSize, steps: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = Checkpoint(folder, every=1e9)
        clock = _StepClock(steps)
        learner = _new_learner(
            "supcon", (), size, [FiniteCheck(), TermLog(folder / "terms.jsonl"), checkpoint, clock]
        )
        with suppress(_EnoughError):
            learner.learn(open_stream(learner.config.stream))
        save = seconds(lambda: checkpoint.save(learner))
    return sum(clock.bare) / (sum(clock.whole) * (1 + save / SAVE_EVERY))


class _EnoughError(Exception):
    """Enough steps were measured."""


class _StepClock(Callback):
    """Measures whole steps of the second task, from the end of one to the end of the next, and bare ones between."""

    def __init__(self, steps: int) -> None:
        self.whole: list[float] = []
        self.bare: list[float] = []
        self._steps = steps
        self._since: float | None = None
        self._views: Tensor | None = None

    def on_step_end(self, learner: Learner) -> None:
        """Note the time of the step, and take a bare one with as many rows."""
        if learner.position.task == 0:
            return
        now = time.process_time()
        if self._views is None:
            self._views = learner.method.parts(_a_batch(learner), learner.ctx)["batch"].x
        # The last batch of an epoch is small.
        x = self._views[: 2 * len(learner.position.order[learner.position.step - 1])]
        bare = seconds(lambda: bare_pass(learner, x))
        if self._since is not None:  # else the step began before the clock
            self.whole.append(now - self._since)
            self.bare.append(bare)
        if len(self.whole) == self._steps:
            raise _EnoughError
        self._since = time.process_time()


def measure_teacher(quick: bool) -> list[Figure]:
    """Measure the previous model's pass, in both of its modes, against forward and backward of the encoder."""
    measured = []
    for size in step_sizes(quick):
        for mode, method in (("batch statistics", "co2l"), ("running statistics", "cclis")):
            learner = learner_in_second_task(method, (), size)
            part = learner.method.parts(_a_batch(learner), learner.ctx)["batch"]
            works = {
                "teacher": partial(teacher_pass, part),
                "both": partial(bare_pass, learner, part.x),
            }
            name = f"previous model with {mode} / forward and backward, width {size.width}"
            value = ratio(alternate(works, size.rounds), "teacher", "both")
            measured.append(Figure("teacher", name, value, 0.25))
    return measured


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


def learner_in_second_task(
    method: str,
    plugins: tuple[str, ...],
    size: StepSize,
    *,
    classes: int = 2,
    buffer: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> Learner:
    """Return a learner with a previous model and a memory that is as full as the first of its two tasks makes it.

    There are so many classes in each task; the default of `buffer`, the rows of the memory, is an eighth of a batch.
    """
    learner = _new_learner(method, plugins, size, (), classes=classes, buffer=buffer, settings=settings)
    stream = open_stream(learner.config.stream)
    learner.enter(stream[0])
    learner.ctx.modules.train()
    for rows in torch.arange(len(learner.ctx.pool)).split(learner.config.train.batch):  # fills a reservoir
        learner.method.after_step(learner.ctx.pool.take(rows), {}, learner.ctx)
    learner.ctx.predictor = learner.method.predictor(learner.ctx)
    learner.method.end_task(learner.ctx)
    learner.keep_previous()
    learner.position.task = 1
    learner.enter(stream[1])
    learner.ctx.modules.train()
    return learner


def _new_learner(
    method: str,
    plugins: tuple[str, ...],
    size: StepSize,
    callbacks: Sequence[Callback],
    *,
    classes: int = 2,
    buffer: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> Learner:
    train = max(size.images, (buffer or 0) // classes)  # enough to fill the memory
    stream = f"synthetic:tasks=2,classes={classes},size={size.pixels},channels=3,train={train},test=2"
    usual = {
        "model.width": size.width,
        "model.features": "signed",
        "train.batch": size.images,
        "train.epochs": 40,
        "train.first_epochs": 1,
        "train.precision": "auto",
        "probe.epochs": 1,
        "probe.mode": "cached",
        "probe.views": 1,
        "data.images_per_class": None,
        "data.test_images_per_class": None,
    }
    given = {name: value for name, value in usual.items() if not name.startswith("probe") or method != "er"}
    buffer = buffer or max(size.images // 8, 4)
    config = (
        RunRequest(
            stream, method, plugins, buffer=buffer, scale="paper", settings={**given, **(settings or {})}
        )
        .resolve()
        .config
    )
    return build_learner(config, open_stream(stream), callbacks=callbacks)


def _a_batch(learner: Learner) -> Batch:
    pool = learner.ctx.pool
    index = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0))
    return pool.take(index[: learner.config.train.batch])


def stepper(learner: Learner) -> Work:
    """Return a work that takes a step on the same images, augmented anew."""
    batch = _a_batch(learner)
    return lambda: learner.step(batch)


def bare_pass(learner: Learner, x: Tensor) -> None:
    """Forward and backward through the encoder alone, in the precision of the learner."""
    learner.ctx.modules.zero_grad(set_to_none=True)
    with learner.hardware.autocast():
        features = learner.ctx.network.encoder(x)
    features.float().sum().backward()


def teacher_pass(part: Part) -> None:
    """Compute the previous model's features of a part."""
    vars(part).pop("previous", None)  # of the last pass
    _ = part.previous
