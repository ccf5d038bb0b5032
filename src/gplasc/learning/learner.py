"""The loop: tasks, epochs, steps; the one place where method, plug-ins, memory and network meet."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.learning.batch import Batch, Expected, Part
from gplasc.learning.callbacks.base import Callback
from gplasc.learning.checkpoints import digest
from gplasc.learning.context import Context
from gplasc.learning.contract import Component, Method, Plugin
from gplasc.learning.devices import Hardware
from gplasc.learning.evaluator import Evaluator, evaluation_samples
from gplasc.learning.optimizer import RunOptimizer
from gplasc.learning.pool import order_batches
from gplasc.learning.schedule import epochs_of
from gplasc.models import Network, Prototypes, steady_statistics
from gplasc.settings.types import Config
from gplasc.streams import Task

_LOG_EVERY = 20  # steps between two looks at the terms, each of which synchronizes the device


@dataclass
class _Position:
    """Where a run stands: completed tasks, completed epochs and steps inside the task under way."""

    task: int = 0
    begun: bool = False
    epoch: int = 0
    step: int = 0
    order: list[Tensor] = field(default_factory=list)
    """The batches of the epoch under way; empty between epochs."""
    total_steps: int = 0


class Learner:
    """Learns task by task and evaluates the tasks seen after each.

    Everything that decides the result is in `state_dict`: a learner that loads it continues bit for bit.

    Args:
        method: What is minimized, remembered and predicted with.
        plugins: Terms that are added to the method's.
        network: The encoder with the heads that method and plug-ins need.
        settings: The complete settings of the run.
        expected: What it prepares for: images, classes, tasks. Heads grow when more classes arrive.
        hardware: Where and how to compute; default: in float32 on the CPU.
        callbacks: Called in this order, see `Callback`.
    """

    def __init__(
        self,
        method: Method[Any],
        plugins: Sequence[Plugin[Any]],
        network: Network,
        *,
        settings: Config,
        expected: Expected,
        hardware: Hardware | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.method = method
        self.plugins = tuple(plugins)
        self.config = settings
        self.hardware = hardware or Hardware()
        self.callbacks = tuple(callbacks)
        self.hardware.processes.synchronize_batchnorm(network)
        self.ctx = Context(settings, method, network, expected, self.hardware, self._on_progress)
        for component in self.components:
            self.ctx.modules.update(component.modules(self.ctx, network))
        self.hardware.prepare(self.ctx.modules)
        # Features that a frozen encoder has computed are trained on at the full rate.
        self._encoder_lr = 1.0 if expected.images.features else settings.model.encoder_lr
        self.optimizer = self._new_optimizer()
        self.position = _Position()
        self.evaluator = Evaluator(settings)
        self._unlogged: list[tuple[dict[str, Any], list[str], Tensor]] = []

    @property
    def components(self) -> tuple[Component[Any], ...]:
        """The method and the plug-ins."""
        return (self.method, *self.plugins)

    @property
    def class_il(self) -> list[list[float]]:
        """Row t: class-IL accuracy, percent, on each task evaluated after task t."""
        return self.evaluator.class_il

    @property
    def task_il(self) -> list[list[float]]:
        """The same for task-IL."""
        return self.evaluator.task_il

    def learn(self, stream: Sequence[Task]) -> None:
        """Learn every task of the stream that is not yet learned, from wherever the position is."""
        while self.position.task < len(stream):
            index = self.position.task
            self.learn_task(stream[index], past=stream[:index])

    def learn_task(self, task: Task, past: Sequence[Task] = (), *, evaluate: bool = True) -> None:
        """Learn one more task, or the rest of it, and evaluate.

        Args:
            task: The next task; its classes must follow those seen. Without evaluation it may have no new classes, and
                its samples may have labels of earlier tasks.
            past: The earlier tasks that are evaluated too, and trained on by methods that see everything.
            evaluate: Whether to evaluate on test samples and to describe the geometry.
        """
        self.enter(task, past)
        if not self.position.begun:
            self._begin()
        self._train()
        self.log_terms()
        for callback in self.callbacks:
            callback.on_task_trained(self)
        self._finish(task, past, evaluate=evaluate)
        self.position = _Position(task=task.index + 1, total_steps=self.position.total_steps)
        self._check_processes()
        for callback in self.callbacks:
            callback.on_task_end(self)

    def enter(self, task: Task, past: Sequence[Task] = ()) -> None:
        """Set what follows from the task and the memory alone."""
        if task.index != self.position.task:
            raise ValueError(f"task {task.index} was given, but the next one is {self.position.task}")
        labels = (task.train.y, evaluation_samples(task, self.config).y)
        _check_labels(task, sum(self.ctx.classes_per_task[: task.index]), labels)
        self.ctx._enter(task, past)
        self._grow(task.classes.stop)
        self.ctx.epochs = epochs_of(self.config.train, task.index) if self.method.trains else 0

    def _begin(self) -> None:
        for component in self.components:
            component.begin_task(self.ctx)
        if not self.config.train.keep_optimizer:
            self.optimizer = self._new_optimizer()
        self.evaluator.timings.append({})
        self.position.begun = True
        for callback in self.callbacks:
            callback.on_task_begin(self)

    def _train(self) -> None:
        ctx, position = self.ctx, self.position
        ctx.modules.train()
        while position.epoch < ctx.epochs:
            ctx.epoch = position.epoch
            if not position.order:
                size, generator = self.config.train.batch, ctx.random["order"]
                position.order = order_batches(ctx.pool, self.method.pool, size, generator)
            while position.step < len(position.order):
                with self._timed("train"):
                    batch = ctx.pool.take(position.order[position.step])
                    part = position.step / len(position.order)
                    lr = self.optimizer.set_learning_rate(self.config.train, ctx.epoch, ctx.epochs, part)
                    terms = self.step(batch)
                position.step += 1
                position.total_steps += 1
                self._note_terms(terms, lr)
                for callback in self.callbacks:
                    callback.on_step_end(self)
            position.epoch, position.step, position.order = position.epoch + 1, 0, []

    def step(self, batch: Batch) -> dict[str, Tensor]:
        """Take one optimizer step on a batch and return the terms, without synchronizing the device."""
        ctx, method = self.ctx, self.method
        parts = method.parts(batch, ctx)
        self._forward(method, parts)
        added = [plugin.parts(batch, parts, ctx) for plugin in self.plugins]
        # Running statistics describe the images that are evaluated, not the plug-ins' stronger augmentation.
        with steady_statistics(ctx.network) if any(added) else nullcontext():
            for plugin, more in zip(self.plugins, added, strict=True):
                self._forward(plugin, more)
        returned: list[tuple[Component[Any], Any]] = [(method, method.loss(parts, ctx))]
        for plugin, more in zip(self.plugins, added, strict=True):
            returned.append((plugin, plugin.loss(parts, more, ctx)))
        terms = _merged(returned)
        self.optimizer.zero_grad(set_to_none=True)
        scaler, processes = self.hardware.scaler, self.hardware.processes
        scaler.scale(torch.stack(list(terms.values())).sum()).backward()
        if processes.size > 1:
            ctx.set_gradient(processes.mean(ctx.flat_gradient()))
        scaler.unscale_(self.optimizer)
        for plugin, more in zip(self.plugins, added, strict=True):
            plugin.adjust_gradients(parts, more, ctx)
        method.adjust_gradients(parts, ctx)
        scaler.step(self.optimizer)
        scaler.update()
        method.after_step(batch, parts, ctx)
        return {name: term.detach() for name, term in terms.items()}

    def _forward(self, component: Component[Any], parts: Mapping[str, Part]) -> None:
        if not isinstance(parts, Mapping):
            raise _unnamed(component, "parts", parts, '{"batch": ctx.part(batch)}')
        try:
            for part in parts.values():
                part.out = self.ctx.forward(part)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise UserError(
                f"a batch of one image cannot be normalized (train.batch is {self.config.train.batch}, and "
                f"{len(self.ctx.pool)} samples are trained on); choose train.batch so that no batch has one image"
            ) from None

    def _finish(self, task: Task, past: Sequence[Task], *, evaluate: bool) -> None:
        """Build the predictor, update the memory, evaluate, and keep the model as the previous one."""
        ctx = self.ctx
        with self._timed("predictor"):
            ctx.predictor = self.method.predictor(ctx)
            self.method.fit_predictor(ctx.predictor, ctx)
        with self._timed("memory"):
            self.method.end_task(ctx)
        ctx.predictor = self._refined(ctx.predictor)
        if evaluate:
            with self._timed("evaluation"):
                ctx.progress("evaluation", 0.0)
                known = {k: v for plugin in self.plugins for k, v in plugin.diagnostics(ctx).items()}
                self.evaluator.evaluate(ctx, [*past, task], known)
        self.keep_previous()

    def keep_previous(self) -> None:
        """Keep the model as it is as the previous one, if method or plug-ins need it."""
        if self.needs_previous:
            self.ctx._keep_previous()

    def new_predictor(self) -> nn.Module:
        """Return an untrained predictor for the classes seen; its state can be loaded into it."""
        return self._refined(self.method.predictor(self.ctx))

    def _refined(self, predictor: nn.Module) -> nn.Module:
        for plugin in self.plugins:
            predictor = plugin.refine(predictor, self.ctx)
        return predictor

    def _check_processes(self) -> None:
        """Give all processes the same predictor, and check that weights and memory are the same."""
        ctx, processes = self.ctx, self.hardware.processes
        if processes.size > 1:
            assert ctx.predictor is not None
            processes.copy_from_first(ctx.predictor)
            processes.check_equal("memory", digest(ctx.memory.rows()))
            processes.check_equal("model", digest(ctx.modules.state_dict()))

    def _grow(self, num_classes: int) -> None:
        """Give the heads outputs for classes that were not announced; the optimizer keeps its momentum."""
        ctx = self.ctx
        if num_classes <= ctx.num_classes:
            return
        ctx.num_classes = num_classes
        if ctx.network.classifier is not None:
            ctx.network.classifier.grow(num_classes, generator=ctx.random["weights.growth"])
        for module in ctx.modules.values():
            if isinstance(module, Prototypes):
                module.grow(num_classes, generator=ctx.random["weights.growth"])
        for component in self.components:
            component.grow(ctx, num_classes)
        old, self.optimizer = self.optimizer, self._new_optimizer()
        self.optimizer.load_grown(old)

    def _new_optimizer(self) -> RunOptimizer:
        rates = {n: r for component in self.components for n, r in component.learning_rates().items()}
        return RunOptimizer.of(self.ctx.modules, self.config.train, rates, encoder_lr=self._encoder_lr)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        spent = self.evaluator.timings[-1]
        spent[phase] = spent.get(phase, 0.0) + time.perf_counter() - start

    def _on_progress(self, phase: str, done: float) -> None:
        for callback in self.callbacks:
            callback.on_progress(self, phase, done)

    def _note_terms(self, terms: Mapping[str, Tensor], lr: float) -> None:
        position = self.position
        where = {"task": position.task, "epoch": position.epoch, "step": position.total_steps, "lr": lr}
        self._unlogged.append((where, list(terms), torch.stack(list(terms.values()))))
        if len(self._unlogged) >= _LOG_EVERY:
            self.log_terms()

    def log_terms(self) -> None:
        """Bring the terms since the last call to the CPU and hand them to `Callback.on_log`."""
        if not self._unlogged:
            return
        unlogged, self._unlogged = self._unlogged, []
        rows = [{**where, **dict(zip(names, v.tolist(), strict=True))} for where, names, v in unlogged]
        for callback in self.callbacks:
            callback.on_log(self, rows)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides how the run goes on: tensors and plain containers."""
        return {
            "position": dict(vars(self.position)),
            "optimizer": self.optimizer.state_dict(),
            **self.ctx.state_dict(),
            "components": [component.state_dict() for component in self.components],
            "results": self.evaluator.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.position = _Position(**state["position"])
        self.ctx.load_state_dict(state, grow=self._grow, new_predictor=self.new_predictor)
        self.optimizer = self._new_optimizer()
        self.optimizer.load_state_dict(state["optimizer"])
        for component, part in zip(self.components, state["components"], strict=True):
            component.load_state_dict(part)
        self.evaluator.load_state_dict(state["results"])

    @property
    def needs_previous(self) -> bool:
        """Whether the model after the last task is kept."""
        return self.method.teacher is not None or any(plugin.needs_previous for plugin in self.plugins)


def _check_labels(task: Task, known: int, labels: Sequence[Tensor]) -> None:
    """Check that new classes follow those known, and that labels are those of its classes and perhaps earlier ones."""
    classes = task.classes
    if len(classes) and classes.start != known:
        raise UserError(
            f"task {task.index} has the classes {classes.start} to {classes.stop - 1}, but {known} classes were seen: "
            f"its first class must be {known}"
        )
    stop = known + len(classes)
    for y in labels:
        shifted = len(y) and y.min() < known and len(y[y >= known].unique()) < len(classes)
        if shifted or (len(y) and (y.min() < 0 or y.max() >= stop)):
            raise UserError(
                f"task {task.index} has labels from {int(y.min())} to {int(y.max())}, but its new classes are {known} "
                f"to {stop - 1}: number the labels over all tasks, from 0 to {stop - 1}"
            )


def _merged(returned: Sequence[tuple[Component[Any], Any]]) -> dict[str, Tensor]:
    """Return the terms of all components; a name that two of them return is an error."""
    terms: dict[str, Tensor] = {}
    owners: dict[str, str] = {}
    for component, own in returned:
        owner = type(component).__name__
        if not isinstance(own, Mapping):
            raise _unnamed(component, "loss", own, '{"ce": term}')
        for name in own.keys() & terms.keys():
            raise UserError(f"{owners[name]} and {owner} both return a term named '{name}'; rename one")
        terms |= own
        owners |= dict.fromkeys(own, owner)
    return terms


def _unnamed(component: Component[Any], hook: str, returned: object, example: str) -> UserError:
    return UserError(
        f"{type(component).__name__}.{hook} returned a {type(returned).__name__}; it must return its "
        f"{'terms' if hook == 'loss' else hook} by name, for example {example}"
    )
