"""The loop: tasks, epochs, steps; the one place where method, plug-ins, memory and network meet."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gplasc.config import Config
from gplasc.evaluation.accuracy import accuracy_rows
from gplasc.evaluation.geometry import class_means, diagnose
from gplasc.learning.context import Context
from gplasc.learning.pool import Pool, order_batches
from gplasc.learning.schedule import learning_rate
from gplasc.methods import find_method
from gplasc.methods.base import Batch, Method
from gplasc.models import LinearClassifier, Network, ProjectionHead, build_encoder, steady_statistics
from gplasc.plugins import find_plugin
from gplasc.plugins.base import Plugin
from gplasc.streams import Samples, Stream, Task


@dataclass
class Position:
    """Where a run stands: completed tasks, completed epochs and steps inside the task under way."""

    task: int = 0
    begun: bool = False
    epoch: int = 0
    step: int = 0
    order: list[Tensor] = field(default_factory=list)
    """The batches of the epoch under way; empty between epochs."""
    total_steps: int = 0


class Watcher(Protocol):
    """Who looks after a run: saves it, shows it, stops it."""

    def step(self, learner: Learner, terms: Mapping[str, Tensor], lr: float, images: int) -> None:
        """Hear of a step just completed."""

    def trained(self, learner: Learner) -> None:
        """Hear that a task's last step is done, before predictor, memory and evaluation."""

    def evaluated(self, learner: Learner) -> None:
        """Hear that a task is complete."""

    def pulse(self, phase: str, done: float) -> None:
        """Hear that a phase outside training is alive."""


class Silent:
    """A watcher that does nothing."""

    def step(self, learner: Learner, terms: Mapping[str, Tensor], lr: float, images: int) -> None:
        """Ignore a step."""

    def trained(self, learner: Learner) -> None:
        """Ignore the end of training."""

    def evaluated(self, learner: Learner) -> None:
        """Ignore the end of a task."""

    def pulse(self, phase: str, done: float) -> None:
        """Ignore a sign of life."""


class Learner:
    """Learns a stream task by task and evaluates all tasks seen after each.

    Everything that decides the result is in `state_dict`: a learner that loads it continues bit for bit.
    """

    def __init__(
        self, config: Config, stream: Stream, *, device: str = "cpu", watcher: Watcher | None = None
    ) -> None:
        self.config = config
        self.stream = stream
        self.watcher = watcher or Silent()
        self.method: Method[Any] = _build(find_method(config.method), config, config.title.partition("+")[0])
        self.plugins: list[Plugin[Any]] = [_build(find_plugin(name), config, name) for name in config.plugins]
        self.ctx = Context(config, stream, torch.device(device), self.method, pulse=self.watcher.pulse)
        self.ctx.set_modules(self._build_modules())
        self.optimizer = self._new_optimizer()
        self.position = Position()
        self.class_il: list[list[float | None]] = []
        self.task_il: list[list[float | None]] = []
        self.geometry: list[dict[str, Any]] = []
        self.timings: list[dict[str, float]] = []
        self.predictor: nn.Module | None = None
        self._learned: list[Tensor] = []

    # ---- the loop ----------------------------------------------------------------------------------------------

    def learn(self) -> None:
        """Learn every task that is not yet learned, from wherever the position stands."""
        while self.position.task < len(self.stream):
            task = self.stream[self.position.task]
            self.enter(task)
            if not self.position.begun:
                for component in (self.method, *self.plugins):
                    component.begin_task(self.ctx)
                if not self.config.train.keep_optimizer:
                    self.optimizer = self._new_optimizer()
                self.timings.append({})
                self.position.begun = True
            self._train()
            self.watcher.trained(self)
            self._finish(task)
            self.position = Position(task=task.index + 1, total_steps=self.position.total_steps)
            self.watcher.evaluated(self)

    def enter(self, task: Task) -> None:
        """Set what follows from the task and the memory alone."""
        ctx = self.ctx
        ctx.task = task
        ctx.epochs = epochs_of(self.config, task.index)
        if self.method.pool == "everything":
            ctx.pool = Pool([self.stream[index].train for index in range(task.index + 1)])
        else:
            ctx.pool = Pool([task.train], None if self.method.pool == "current" else ctx.memory)

    def _train(self) -> None:
        ctx, position = self.ctx, self.position
        ctx.modules.train()
        while position.epoch < ctx.epochs:
            ctx.epoch = position.epoch
            if not position.order:
                position.order = order_batches(
                    ctx.pool, self.method.pool, self.config.train.batch, ctx.random["order"]
                )
            while position.step < len(position.order):
                with self._timed("train"):
                    batch = ctx.pool.take(position.order[position.step])
                    lr = self._set_learning_rate(position.step / len(position.order))
                    terms = self.step(batch)
                position.step += 1
                position.total_steps += 1
                self.watcher.step(self, terms, lr, len(batch.y))
            position.epoch, position.step, position.order = position.epoch + 1, 0, []

    def step(self, batch: Batch) -> dict[str, Tensor]:
        """Take one optimizer step on a batch and return the terms, without waiting for the device."""
        ctx = self.ctx
        own = self.method.parts(batch, ctx)
        further = [part for plugin in self.plugins for part in plugin.parts(batch, own, ctx)]
        parts = own + further
        with ctx.autocast():
            outs = [ctx.network(part.x) for part in own]
            if further:
                # Images are evaluated as the method sees them, not in the plug-ins' stronger augmentation.
                with steady_statistics(ctx.network):
                    outs += [ctx.network(part.x) for part in further]
        terms = dict(self.method.loss(own, outs[: len(own)], ctx))
        for plugin in self.plugins:
            terms |= plugin.loss(parts, outs, ctx)
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()
        self.method.adjust_gradients(ctx)
        self.optimizer.step()
        self.method.after_step(batch, own, outs[: len(own)], ctx)
        ctx.forget_step()
        return {name: term.detach() for name, term in terms.items()}

    def _finish(self, task: Task) -> None:
        """Build the predictor, update the memory, evaluate, and keep the model as the previous one."""
        with self._timed("predictor"):
            self.predictor = self.method.predictor(self.ctx)
        with self._timed("memory"):
            self.method.end_task(self.ctx)
        with self._timed("evaluation"):
            self._evaluate(task, self.predictor)
        if self.needs_previous:
            self.ctx.keep_previous()

    # ---- evaluation --------------------------------------------------------------------------------------------

    def _evaluate(self, task: Task, predictor: nn.Module) -> None:
        tasks = [self.stream[index] for index in range(task.index + 1)]
        scores, labels, means = [], [], []
        for other in tasks:
            samples = evaluation_samples(other, self.config)
            features = self.ctx.features(samples)
            y = self.ctx.to_device(samples.y)
            with torch.no_grad():
                scores.append(predictor(features))
            labels.append(y)
            means.append(class_means(nn.functional.normalize(features, dim=1), y, other.classes).cpu())
        in_class, in_task = accuracy_rows(scores, labels, [t.classes for t in tasks], len(self.stream))
        self.class_il.append(in_class)
        self.task_il.append(in_task)
        self._learned.append(means[-1])
        known: dict[str, Any] = {}
        for plugin in self.plugins:
            known |= plugin.diagnostics(self.ctx)
        self.geometry.append(diagnose(means, self._learned, **known))

    # ---- parts -------------------------------------------------------------------------------------------------

    def _build_modules(self) -> nn.ModuleDict:
        config, stream = self.config, self.stream
        heads = frozenset().union(*(c.heads for c in (self.method, *self.plugins)))
        generator = self.ctx.random["initialisation"]
        encoder = build_encoder(
            config.model.encoder,
            in_channels=stream.image_shape[0],
            width=config.model.width,
            features=config.model.features,
            generator=generator,
        )
        dim = encoder.feature_dim
        projection = classifier = None
        if "projection" in heads:
            hidden, out = config.model.projection_hidden, config.model.projection_dim
            projection = ProjectionHead(dim, hidden=hidden, out=out, generator=generator)
        if "classifier" in heads:
            classifier = LinearClassifier(dim, stream.num_classes, generator=generator)
        network = Network(encoder, projection, classifier)
        modules = nn.ModuleDict({"network": network})
        for component in (self.method, *self.plugins):
            modules.update(component.modules(self.ctx, network))
        return modules.to(self.ctx.device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def _new_optimizer(self) -> torch.optim.SGD:
        train = self.config.train
        own = {n: r for c in (self.method, *self.plugins) for n, r in c.learning_rates().items()}
        groups = [
            {"params": list(module.parameters()), "base_lr": own.get(name, train.lr)}
            for name, module in self.ctx.modules.items()
        ]
        return torch.optim.SGD(
            groups, lr=train.lr, momentum=train.momentum, weight_decay=train.weight_decay, foreach=True
        )

    def _set_learning_rate(self, part: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                self.config.train, group["base_lr"], self.ctx.epoch, self.ctx.epochs, part
            )
        return float(self.optimizer.param_groups[0]["lr"])

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        spent = self.timings[-1]
        spent[phase] = spent.get(phase, 0.0) + time.perf_counter() - start

    # ---- state -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides how the run goes on: tensors and plain containers."""
        return {
            "position": dict(vars(self.position)),
            "modules": self.ctx.modules.state_dict(),
            "previous": self.ctx.previous_modules and self.ctx.previous_modules.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "memory": self.ctx.memory.state_dict(),
            "random": self.ctx.random.state_dict(),
            "components": [component.state_dict() for component in (self.method, *self.plugins)],
            "results": {
                "class_il": self.class_il,
                "task_il": self.task_il,
                "geometry": self.geometry,
                "timings": self.timings,
                "learned": self._learned,
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.position = Position(**state["position"])
        self.ctx.modules.load_state_dict(state["modules"])
        if state["previous"] is not None:
            self.ctx.keep_previous()
            assert self.ctx.previous_modules is not None
            self.ctx.previous_modules.load_state_dict(state["previous"])
        self.optimizer = self._new_optimizer()
        self.optimizer.load_state_dict(state["optimizer"])
        self.ctx.memory.load_state_dict(state["memory"])
        self.ctx.random.load_state_dict(state["random"])
        for component, part in zip((self.method, *self.plugins), state["components"], strict=True):
            component.load_state_dict(part)
        results = state["results"]
        self.class_il, self.task_il = results["class_il"], results["task_il"]
        self.geometry, self.timings = results["geometry"], results["timings"]
        self._learned = results["learned"]

    # ---- size --------------------------------------------------------------------------------------------------

    @property
    def needs_previous(self) -> bool:
        """Whether the model after the last task is kept."""
        return self.method.teacher is not None or any(plugin.needs_previous for plugin in self.plugins)

    def pool_size(self, task: int) -> int:
        """Return how many samples an epoch of a task visits."""
        past = sum(len(self.stream[index].train) for index in range(task))
        remembered = {"everything": past, "current": 0}.get(self.method.pool, min(self.config.buffer, past))
        return len(self.stream[task].train) + remembered

    def steps_of(self, task: int) -> int:
        """Return how many optimizer steps a task takes, for a memory that is full after the first task."""
        return epochs_of(self.config, task) * -(-self.pool_size(task) // self.config.train.batch)

    @cached_property
    def total_steps(self) -> int:
        """How many optimizer steps the whole stream takes."""
        return sum(self.steps_of(index) for index in range(len(self.stream)))


def epochs_of(config: Config, task: int) -> int:
    """Return the epochs of a task, counted from 0."""
    return (config.train.first_epochs or config.train.epochs) if task == 0 else config.train.epochs


def evaluation_samples(task: Task, config: Config) -> Samples:
    """Return the split that is evaluated on: test, or validation taken from train."""
    if config.data.evaluate_on == "validation":
        assert task.validation is not None
        return task.validation
    return task.test


def digest(tensors: Mapping[str, Any]) -> str:
    """Return the SHA-256 of named tensors: equal only if every bit is."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        if not isinstance(tensors[name], Tensor):  # a module's extra state: settings, no weights
            continue
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _build(kind: type[Any], config: Config, name: str) -> Any:
    return kind(kind.Settings(**config.options[name]))
