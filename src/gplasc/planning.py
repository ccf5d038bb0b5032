"""What a run takes on a device that is not at hand: its operations are counted, and divided by a measured speed.

The unit is the image pass: one image (one augmented view of it) through the encoder. A pass with gradients counts
three times, because the backward pass takes about twice the operations of the forward pass. A method's passes for
each sample are counted while it learns two tasks of tiny images; the heads, the losses and the linear probe's own
steps are left out.
"""

from __future__ import annotations

import heapq
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import torch
from torch import nn

from gplasc._io.display import duration
from gplasc.errors import UserError
from gplasc.learning import Callback, Learner
from gplasc.learning.schedule import epochs_of, pool_sizes, steps_per_task
from gplasc.methods import find_method
from gplasc.models import Encoder, build_encoder
from gplasc.runs.build import build_learner
from gplasc.runs.spec import Resolved, resolve
from gplasc.settings.parse import nearest
from gplasc.settings.types import Config, Scale, Settings
from gplasc.streams import open_stream
from gplasc.streams.catalog import find_stream

_BACKWARD = 2  # a backward pass in units of a forward pass


class MeasuredRun(Settings):
    """A run and the seconds that its training took."""

    seconds: float
    stream: str
    method: str
    plugins: tuple[str, ...] = ()
    buffer: int | None = None
    scale: Scale = "paper"


class Device(Settings):
    """A device and the runs that were measured on it."""

    name: str
    source: str
    runs: tuple[MeasuredRun, ...]

    def nearest_run(self, config: Config) -> MeasuredRun:
        """Return the run with the same method and plug-ins, else the first."""
        same = [r for r in self.runs if (r.method, r.plugins) == (config.method, config.plugins)]
        return (same or self.runs)[0]


@dataclass(frozen=True)
class Plan:
    """What a run takes.

    images: Samples that training visits.
    training: Image passes of training.
    further: Image passes of the linear probe and of the evaluation.
    operations: Floating-point operations of one image pass.
    """

    config: Config
    tasks: int
    steps: int
    images: int
    training: float
    further: float
    operations: float

    @property
    def passes(self) -> float:
        """All image passes."""
        return self.training + self.further

    def seconds(self, device: str) -> float:
        """Return how long the run takes on a device of the table."""
        run = find_device(device).nearest_run(self.config)
        return self.passes * self.operations / speed(run)

    def text(self, device: str) -> str:
        """Return the plan for people."""
        found = find_device(device)
        run = found.nearest_run(self.config)
        lines = {
            "run": f"{self.config.title} on {self.config.stream}, scale {self.config.scale}",
            "tasks": f"{self.tasks}",
            "steps": f"{self.steps:,}, {self.images:,} images",
            "passes": f"{self.training / 1e6:,.1f} million image passes of training, {self.further / 1e6:,.1f} million "
            "of probe and evaluation",
            "operations": f"{self.passes * self.operations / 1e15:,.1f} * 10^15",
            "device": f"{found.name}, {speed(run) / 1e12:.1f} * 10^12 operations a second",
            "from": f"{run.seconds:,.0f} s of {'+'.join((run.method, *run.plugins))} on {run.stream} ({found.source})",
            "time": duration(self.seconds(device)),
        }
        return "\n".join(f"{name:<11}{text}" for name, text in lines.items())


def find_device(name: str) -> Device:
    """Return a device of the table.

    Raises:
        UserError: If there is none of this name.
    """
    known = _devices()
    if name not in known:
        raise UserError(f"there is no measured time on '{name}'; {nearest(name, known)}")
    return known[name]


@lru_cache
def speed(run: MeasuredRun) -> float:
    """Return how many operations a second the training of a measured run took."""
    plan = plan_run(resolve(run.stream, run.method, run.plugins, buffer=run.buffer, scale=run.scale))
    return plan.training * plan.operations / run.seconds


def plan_run(resolved: Resolved) -> Plan:
    """Count what a run takes, without its data.

    Raises:
        UserError: If the size of the stream is not known beforehand.
    """
    config = resolved.config
    tasks, train, tested, shape = _sizes(config)
    sizes = [train] * tasks
    kind = find_method(config.method).pool
    pools = pool_sizes(config, kind, sizes)
    images = [size * epochs_of(config.train, index) for index, size in enumerate(pools)]
    first, later, probed = _passes_per_sample(_countable(config))
    probe = config.probe.views if config.probe.mode == "cached" else config.probe.epochs
    looks = sum(pools) * probe if probed else 0
    evaluated = tested * tasks * (tasks + 1) // 2
    return Plan(
        config,
        tasks,
        sum(steps_per_task(config, kind, sizes)),
        sum(images),
        first * images[0] + later * sum(images[1:]),
        looks + evaluated,
        _operations(config.model.encoder, config.model.width, config.model.features, shape),
    )


def spread_over(seconds: Iterable[float], devices: int) -> float:
    """Return when the last run ends if each device takes the longest run left whenever it is free.

    >>> spread_over([3, 3, 2, 2, 2], 2)
    7
    """
    busy: list[float] = [0] * devices
    for one in sorted(seconds, reverse=True):
        heapq.heapreplace(busy, busy[0] + one)
    return max(busy)


@lru_cache
def _devices() -> dict[str, Device]:
    text = resources.files(__package__).joinpath("devices.toml").read_text(encoding="utf-8")
    return {name: Device(**values) for name, values in tomllib.loads(text).items()}


def _sizes(config: Config) -> tuple[int, int, int, tuple[int, int, int]]:
    """Return the tasks of a stream, training and test samples of each, and the shape of an image."""
    info, _ = find_stream(config.stream)
    size = config.data.image_size or info.image_size
    if info.tasks is None or info.train_images is None or info.test_images is None or size is None:
        raise UserError(
            f"the size of {config.stream} is known only from its files; leave out --on to measure here"
        )
    classes = info.tasks * info.classes_per_task
    per_task = config.data.classes_per_task or info.classes_per_task
    tasks = len(per_task) if isinstance(per_task, tuple) else -(-classes // per_task)
    train = min(info.train_images, (config.data.images_per_class or info.train_images) * classes)
    tested = min(info.test_images, (config.data.test_images_per_class or info.test_images) * classes)
    return tasks, train // tasks, tested // tasks, (info.channels or 3, size, size)


@lru_cache
def _operations(encoder: str, width: int, features: Any, shape: tuple[int, int, int]) -> float:
    """Count the floating-point operations of one image through an encoder."""
    from torch.utils.flop_counter import FlopCounterMode

    network = build_encoder(
        encoder, in_channels=shape[0], width=width, features=features, generator=torch.Generator()
    ).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, *shape))
    return float(counter.get_total_flops())


def _countable(config: Config) -> Config:
    """Return settings with the same passes for each sample, but tiny images, network and tasks."""
    size = 2 * config.train.batch
    buffer = min(config.buffer, size)
    return config.model_copy(
        update={
            "stream": f"synthetic:tasks=2,classes=2,size=8,channels=1,train={size // 2},test=1",
            "data": type(config.data)(),
            "model": config.model.model_copy(update={"encoder": "small", "width": 4, "projection_dim": 8}),
            "train": type(config.train)(batch=config.train.batch, epochs=1, first_epochs=1),
            "probe": type(config.probe)(views=1, epochs=1, milestones=()),
            "buffer": buffer,
            "seed": 0,
            "scale": "smoke",
            "identity": {},
        }
    )


_counted: dict[str, tuple[float, float, bool]] = {}


def _passes_per_sample(config: Config) -> tuple[float, float, bool]:
    """Return the passes for each visited sample in the first task and later, and whether there is a linear probe."""
    if config.run_id not in _counted:
        stream = open_stream(config.stream)
        count = _Count()
        learner = build_learner(config, stream, callbacks=[count])
        with count.of(learner), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the tiny network
            learner.learn(stream)
        pools = pool_sizes(config, learner.method.pool, [len(task.train) for task in stream])
        first, later = (passes / size for passes, size in zip(count.passes, pools, strict=True))
        _counted[config.run_id] = (first, later, not learner.ctx.network.classifier)
    return _counted[config.run_id]


class _Count(Callback):
    """Counts the passes of each task while it is trained."""

    def __init__(self) -> None:
        self.passes: list[float] = []
        self._training = False

    def on_task_begin(self, learner: Learner) -> None:
        self.passes.append(0.0)
        self._training = True

    def on_task_trained(self, learner: Learner) -> None:
        self._training = False

    @contextmanager
    def of(self, learner: Learner) -> Iterator[None]:
        """Count inside the block."""
        ctx = learner.ctx

        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            if self._training and isinstance(module, Encoder):
                ours = module is ctx.network.encoder or (ctx.previous and module is ctx.previous.encoder)
                learns = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
                self.passes[-1] += len(arguments[0]) * (1 + _BACKWARD * learns) if ours else 0

        handle = nn.modules.module.register_module_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()
