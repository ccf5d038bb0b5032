"""The second stage and evaluation: the cached probe against the published one, and their share of a whole run."""

from __future__ import annotations

import statistics
from functools import partial

import torch
from benchmarks.speed.clock import ratio, seconds
from benchmarks.speed.figure import Figure
from benchmarks.speed.resident import PhaseClock

from gplasc.learning import Learner
from gplasc.learning.pool import Pool
from gplasc.learning.probe import train_probe
from gplasc.learning.schedule import epochs_of
from gplasc.random import Generators
from gplasc.runs.build import build_learner
from gplasc.runs.spec import RunRequest
from gplasc.streams import Stream, open_stream


def measure_evaluation(quick: bool) -> list[Figure]:
    """Measure both probes, and what a run does outside training.

    Times are those of a shortened run with the settings of Seq-CIFAR-10 at cpu scale, on synthetic images of that size.
    It has a quarter of the images, test images and buffer: the shares are those of the whole run. Its encoder has
    hardly learned, so accuracies are compared on Seq-Digits too.
    """
    learner, stream, clock = _run(quick)
    share = _share(clock)  # of the run alone, which ended here
    mixed = torch.Generator().manual_seed(0)
    some = [task.train.take(torch.randperm(len(task.train), generator=mixed)[:40]) for task in stream]
    learner.ctx.pool = Pool(some)
    faster, _ = _probes(learner, stream, 1)
    _, lost_on_digits = _probes(*_learned(quick), 1 if quick else 4)
    return [
        Figure("evaluation", "published probe / cached probe, time", faster, 10.0, "least"),
        Figure(
            "evaluation",
            "published probe - cached probe, accuracy, encoder of Seq-Digits",
            lost_on_digits,
            0.5,
            unit="points",
        ),
        share,
    ]


def _run(quick: bool) -> tuple[Learner, Stream, PhaseClock]:
    """Learn five tasks, one epoch each, with 100 training and 250 test images a class."""
    images, tests, pixels = (8, 4, 8) if quick else (100, 250, 32)
    name = f"synthetic:tasks=5,classes=2,size={pixels},channels=3,train={images},test={tests}"
    kept = RunRequest("seq-cifar10", "co2l", ("gplasc",), scale="cpu").resolve().config
    settings = {
        "train.epochs": 1,
        "train.first_epochs": 1,
        "train.warmup_epochs": 0,
        "train.batch": kept.train.batch,
        "model.encoder": kept.model.encoder,
        "model.width": 4 if quick else kept.model.width,
        "model.features": kept.model.features,
        "data.images_per_class": None,
        "data.test_images_per_class": None,
        "probe.epochs": 2 if quick else kept.probe.epochs,
        "probe.views": 2 if quick else kept.probe.views,
        "probe.batch": kept.probe.batch,
        "probe.milestones": kept.probe.milestones,
    }
    config = (
        RunRequest(name, "co2l", ("gplasc",), buffer=kept.buffer // 4, scale="cpu", settings=settings)
        .resolve()
        .config
    )
    clock, stream = PhaseClock(), open_stream(name)
    learner = build_learner(config, stream, callbacks=[clock])
    learner.learn(stream)
    return learner, stream, clock


def _learned(quick: bool) -> tuple[Learner, Stream]:
    """Learn Seq-Digits, for fewer epochs than the preset has."""
    epochs = 1 if quick else 20
    settings = {"train.epochs": epochs, "train.first_epochs": epochs, "probe.epochs": 2 if quick else 100}
    stream = open_stream("seq-digits")
    config = RunRequest("seq-digits", "co2l", ("gplasc",), scale="cpu", settings=settings).resolve().config
    learner = build_learner(config, stream)
    learner.learn(stream)
    return learner, stream


def _share(clock: PhaseClock) -> Figure:
    """Scale the time of the one epoch to all epochs; everything else was done in full."""
    train = RunRequest("seq-cifar10", "co2l", ("gplasc",), scale="cpu").resolve().config.train
    training = sum(spent * epochs_of(train, task) for task, spent in enumerate(clock.training))
    rest = sum(clock.rest)
    name = "share of a Seq-CIFAR-10 run at cpu scale outside training, co2l+gplasc"
    return Figure("evaluation", name, rest / (rest + training), 0.10)


def _probes(learner: Learner, stream: Stream, seeds: int) -> tuple[float, float]:
    """Train both kinds of probe on the learner's pool, alternately, and evaluate them on all tasks.

    Returns how many times as long the published one takes, and by how many points its accuracy is higher.
    """
    ctx = learner.ctx
    features = torch.cat([ctx.features(task.test) for task in stream])
    y = torch.cat([task.test.y for task in stream])
    times: dict[str, list[float]] = {"cached": [], "published": []}
    accuracy: dict[str, list[float]] = {"cached": [], "published": []}
    settings = ctx.probe
    for seed in range(seeds):
        for mode in times:
            ctx.probe = settings.model_copy(update={"mode": mode})
            ctx.random = Generators(seed)
            probe = learner.method.predictor(ctx)
            times[mode].append(seconds(partial(train_probe, probe, ctx)))
            accuracy[mode].append(100 * (probe(features).argmax(1).cpu() == y).float().mean().item())
    ctx.probe = settings
    lost = statistics.fmean(accuracy["published"]) - statistics.fmean(accuracy["cached"])
    return ratio(times, "published", "cached"), lost
