"""The loop: tasks, epochs, steps; the one place where method, plug-ins, memory and network meet."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.evaluation.accuracy import accuracy_rows
from gplasc.evaluation.geometry import append_diagnosis, class_means, diagnose
from gplasc.learning.batch import Batch, ImageFormat, Part
from gplasc.learning.batchnorm import synchronize_batchnorm
from gplasc.learning.context import FORWARD_ROWS, Context
from gplasc.learning.contract import Component, Method, Plugin
from gplasc.learning.digest import digest
from gplasc.learning.distributed import Processes
from gplasc.learning.optimizer import load_grown, new_optimizer, set_learning_rate
from gplasc.learning.pool import Pool, order_batches
from gplasc.learning.schedule import epochs_of
from gplasc.models import Network, steady_statistics
from gplasc.settings.types import Config
from gplasc.streams import Samples, Task

_RESULTS = ("class_il", "task_il", "geometry", "timings")
_LOG_EVERY = 20  # steps between two looks at the terms, each of which synchronizes the device


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


class Callback:
    """Override the hooks you need; a learner calls its callbacks in the order in which they were given.

    Useful attributes: ``learner.position`` (task, epoch, step,
    total_steps), ``learner.config``, ``learner.class_il`` and ``learner.task_il`` (rows of the accuracy matrices),
    ``learner.ctx`` (network, memory, task). A callback may read all of it and must change nothing. An exception that a
    hook raises ends the run; its checkpoint stays.

    >>> class PrintAccuracy(Callback):
    ...     def on_task_end(self, learner):
    ...         print(learner.position.task, learner.class_il[-1])
    """

    def on_task_begin(self, learner: Learner) -> None:
        """Called before the first step of ``learner.ctx.task``; not again when a run resumes inside the task."""

    def on_step_end(self, learner: Learner) -> None:
        """Called after every optimizer step. Reading a tensor's value here synchronizes the device; see `on_log`."""

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Called every few steps with one row for each step since the last call.

        Args:
            learner: The learner.
            rows: Dictionaries with ``task``, ``epoch``, ``step``, ``lr`` and every loss term by name, as numbers.
        """

    def on_task_trained(self, learner: Learner) -> None:
        """Called after the last step of a task, before predictor, memory and evaluation."""

    def on_task_end(self, learner: Learner) -> None:
        """Called when a task is complete: its rows of the accuracy matrices are there."""

    def on_progress(self, learner: Learner, phase: str, done: float) -> None:
        """Called between pieces of work outside training.

        Args:
            learner: The learner.
            phase: What is being computed, such as ``"probe"``.
            done: How much of it is done, from 0 to 1.
        """


class Learner:
    """Learns task by task and evaluates the tasks seen after each.

    Everything that decides the result is in `state_dict`: a learner that loads it continues bit for bit.

    Args:
        method: What is minimized, remembered and predicted with.
        plugins: Terms that are added to the method's.
        network: The encoder with the heads that method and plug-ins need.
        settings: The complete settings of the run.
        images: Shape and normalization of the images.
        device: Where to compute.
        processes: The processes that compute this run together, each with a learner of its own; default: this one.
        compiled: Whether the encoder is compiled.
        expected_tasks: The number of tasks, if it is known.
        num_classes: For how many classes the network's classifier has outputs; heads grow when more arrive.
        callbacks: Called in this order, see `Callback`.
    """

    def __init__(
        self,
        method: Method[Any],
        plugins: Sequence[Plugin[Any]],
        network: Network,
        *,
        settings: Config,
        images: ImageFormat,
        device: str = "cpu",
        processes: Processes | None = None,
        compiled: bool = False,
        expected_tasks: int | None = None,
        num_classes: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.method = method
        self.plugins = tuple(plugins)
        self.config = settings
        self.images = images
        self.callbacks = tuple(callbacks)
        self.ctx = Context(
            settings,
            method,
            network,
            images,
            device=torch.device(device),
            processes=processes,
            compiled=compiled,
            expected_tasks=expected_tasks,
            num_classes=num_classes,
            on_progress=self._on_progress,
        )
        if self.ctx.processes.size > 1:
            synchronize_batchnorm(network)
        modules = nn.ModuleDict({"network": network})
        for component in self.components:
            modules.update(component.modules(self.ctx, network))
        self.ctx.set_modules(modules)
        self.optimizer = self._new_optimizer()
        self.position = Position()
        self.class_il: list[list[float]] = []
        """Row t: class-IL accuracy, percent, on each task evaluated after task t."""
        self.task_il: list[list[float]] = []
        self.geometry: list[dict[str, Any]] = []
        self.timings: list[dict[str, float]] = []
        self._means_when_learned: list[Tensor] = []
        self._unlogged: list[tuple[dict[str, Any], list[str], Tensor]] = []

    @property
    def components(self) -> tuple[Component[Any], ...]:
        """The method and the plug-ins."""
        return (self.method, *self.plugins)

    # ---- the loop ----------------------------------------------------------------------------------------------

    def learn(self, stream: Sequence[Task]) -> None:
        """Learn every task of the stream that is not yet learned, from wherever the position stands."""
        while self.position.task < len(stream):
            index = self.position.task
            self.learn_task(stream[index], past=stream[:index])

    def learn_task(self, task: Task, past: Sequence[Task] = (), *, evaluate: bool = True) -> None:
        """Learn one more task, or the rest of it, and evaluate.

        Args:
            task: The task; its index must be that of the next task, and its classes must follow those seen. Without
                evaluation it may have no new classes, and its samples may have labels of earlier tasks.
            past: The earlier tasks that are evaluated too, and trained on by methods that see everything.
            evaluate: Whether to evaluate on the tasks' test samples and to describe the geometry.
        """
        self.enter(task, past)
        if not self.position.begun:
            self._begin()
        self._train()
        self.log_terms()
        for callback in self.callbacks:
            callback.on_task_trained(self)
        self._finish(task, past, evaluate=evaluate)
        self.position = Position(task=task.index + 1, total_steps=self.position.total_steps)
        self._check_processes()
        for callback in self.callbacks:
            callback.on_task_end(self)

    def enter(self, task: Task, past: Sequence[Task] = ()) -> None:
        """Set what follows from the task and the memory alone."""
        ctx = self.ctx
        if task.index != self.position.task:
            raise ValueError(f"task {task.index} was given, but the next one is {self.position.task}")
        ctx.task = task
        ctx.classes_per_task[task.index :] = [len(task.classes)]
        self._grow(task.classes.stop)
        ctx.predictor = None
        ctx.epochs = epochs_of(self.config.train, task.index) if self.method.trains else 0
        if self.method.pool == "everything":
            ctx.pool = Pool([*(other.train for other in past), task.train])
        else:
            ctx.pool = Pool([task.train], None if self.method.pool == "current" else ctx.memory)
        if ctx.processes.size == 1:  # several processes move their shares of each batch
            ctx.pool.keep_on(ctx.device)

    def _begin(self) -> None:
        for component in self.components:
            component.begin_task(self.ctx)
        if not self.config.train.keep_optimizer:
            self.optimizer = self._new_optimizer()
        self.timings.append({})
        self.position.begun = True
        for callback in self.callbacks:
            callback.on_task_begin(self)

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
                    part = position.step / len(position.order)
                    lr = set_learning_rate(self.optimizer, self.config.train, ctx.epoch, ctx.epochs, part)
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
        parts = _named(method, "parts", method.parts(batch, ctx))
        added = [_named(plugin, "parts", plugin.parts(batch, parts, ctx)) for plugin in self.plugins]
        self._forward(parts)
        if any(added):
            # Running statistics describe the images that are evaluated, not the plug-ins' stronger augmentation.
            with steady_statistics(ctx.network):
                for more in added:
                    self._forward(more)
        returned: list[tuple[Component[Any], object]] = [(method, method.loss(parts, ctx))]
        returned += [
            (plugin, plugin.loss(parts, more, ctx)) for plugin, more in zip(self.plugins, added, strict=True)
        ]
        terms = _merged(returned)
        self.optimizer.zero_grad(set_to_none=True)
        ctx.scaler.scale(torch.stack(list(terms.values())).sum()).backward()
        if ctx.processes.size > 1:
            ctx.set_gradient(ctx.processes.mean(ctx.flat_gradient()))
        ctx.scaler.unscale_(self.optimizer)
        for plugin, more in zip(self.plugins, added, strict=True):
            plugin.adjust_gradients(parts, more, ctx)
        method.adjust_gradients(parts, ctx)
        ctx.scaler.step(self.optimizer)
        ctx.scaler.update()
        method.after_step(batch, parts, ctx)
        return {name: term.detach() for name, term in terms.items()}

    def _forward(self, parts: Mapping[str, Part]) -> None:
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
                self._evaluate([*past, task], ctx.predictor)
        if self.needs_previous:
            ctx.keep_previous()

    def new_predictor(self) -> nn.Module:
        """Return an untrained predictor for the classes seen; its state can be loaded into it."""
        return self._refined(self.method.predictor(self.ctx))

    def _refined(self, predictor: nn.Module) -> nn.Module:
        for plugin in self.plugins:
            predictor = plugin.refine(predictor, self.ctx)
        return predictor

    def _check_processes(self) -> None:
        """Give all processes the same predictor, and check that weights and memory are the same."""
        ctx = self.ctx
        if ctx.processes.size > 1:
            assert ctx.predictor is not None
            ctx.processes.copy_from_first(ctx.predictor)
            ctx.processes.check_equal("memory", digest(ctx.memory.rows()))
            ctx.processes.check_equal("model", digest(ctx.modules.state_dict()))

    # ---- evaluation --------------------------------------------------------------------------------------------

    def _evaluate(self, tasks: Sequence[Task], predictor: nn.Module) -> None:
        scores: list[Tensor] = []
        labels: list[Tensor] = []
        means: list[Tensor] = []
        for group in _groups([evaluation_samples(task, self.config) for task in tasks]):
            together = self.ctx.features(group[0] if len(group) == 1 else Pool(group))
            for samples, features in zip(group, together.split([len(s) for s in group]), strict=True):
                y = self.ctx.to_device(samples.y)
                with torch.no_grad():
                    scores.append(predictor(features))
                unit = nn.functional.normalize(features, dim=1)
                means.append(class_means(unit, y, tasks[len(labels)].classes).cpu())
                labels.append(y)
        in_class, in_task = accuracy_rows(scores, labels, [task.classes for task in tasks])
        self.class_il.append(in_class)
        self.task_il.append(in_task)
        self._means_when_learned.append(means[-1])
        known: dict[str, Any] = {}
        for plugin in self.plugins:
            known |= plugin.diagnostics(self.ctx)
        append_diagnosis(self.geometry, diagnose(means, self._means_when_learned[-len(means) :], **known))

    # ---- heads and optimizer -----------------------------------------------------------------------------------

    def _grow(self, num_classes: int) -> None:
        """Give the heads outputs for classes that were not announced; the optimizer keeps its momentum."""
        ctx = self.ctx
        if num_classes <= ctx.num_classes:
            return
        ctx.num_classes = num_classes
        if ctx.network.classifier is not None:
            ctx.network.classifier.grow(num_classes, generator=ctx.random["weights.growth"])
        for component in self.components:
            component.grow(ctx, num_classes)
        old, self.optimizer = self.optimizer, self._new_optimizer()
        load_grown(self.optimizer, old)

    def _new_optimizer(self) -> torch.optim.SGD:
        rates = {n: r for component in self.components for n, r in component.learning_rates().items()}
        factor = 1.0 if self.images.features else self.config.model.encoder_lr
        return new_optimizer(self.ctx.modules, self.config.train, rates, encoder_lr=factor)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        spent = self.timings[-1]
        spent[phase] = spent.get(phase, 0.0) + time.perf_counter() - start

    # ---- callbacks ---------------------------------------------------------------------------------------------

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
        rows = [
            {**where, **dict(zip(names, values.tolist(), strict=True))}
            for where, names, values in self._unlogged
        ]
        self._unlogged.clear()
        for callback in self.callbacks:
            callback.on_log(self, rows)

    # ---- state -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides how the run goes on: tensors and plain containers."""
        return {
            "position": dict(vars(self.position)),
            "optimizer": self.optimizer.state_dict(),
            **self.ctx.state_dict(),
            "components": [component.state_dict() for component in self.components],
            "results": {
                # As text: torch.save calls a function for every number, and there are more with every task.
                **{name: json.dumps(getattr(self, name)) for name in _RESULTS},
                "means_when_learned": torch.cat(self._means_when_learned or [torch.zeros(0)]),
                "means_rows": [len(means) for means in self._means_when_learned],
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.position = Position(**state["position"])
        self.ctx.load_state_dict(state, grow=self._grow, new_predictor=self.new_predictor)
        self.optimizer = self._new_optimizer()
        self.optimizer.load_state_dict(state["optimizer"])
        for component, part in zip(self.components, state["components"], strict=True):
            component.load_state_dict(part)
        results = state["results"]
        means = results["means_when_learned"]
        if isinstance(means, list):  # written before results were text
            results = {**results, **{name: json.dumps(results[name]) for name in _RESULTS}}
        else:
            means = [rows.clone() for rows in means.split(results["means_rows"])]
        self._means_when_learned = means
        for name in _RESULTS:
            setattr(self, name, json.loads(results[name]))

    @property
    def needs_previous(self) -> bool:
        """Whether the model after the last task is kept."""
        return self.method.teacher is not None or any(plugin.needs_previous for plugin in self.plugins)


def _named(component: Component[Any], hook: str, returned: Any) -> Any:
    """Return what a hook returned if it is a mapping from names."""
    if isinstance(returned, Mapping):
        return returned
    example = {"parts": '{"batch": ctx.part(batch)}', "loss": '{"ce": term}'}[hook]
    raise UserError(
        f"{type(component).__name__}.{hook} returned a {type(returned).__name__}; it must return its "
        f"{'terms' if hook == 'loss' else hook} by name, for example {example}"
    )


def _merged(returned: Sequence[tuple[Component[Any], object]]) -> dict[str, Tensor]:
    """Return the terms of all components; a name that two of them return is an error."""
    terms: dict[str, Tensor] = {}
    owners: dict[str, str] = {}
    for component, found in returned:
        owner = type(component).__name__
        for name, term in _named(component, "loss", found).items():
            if name in terms:
                raise UserError(
                    f"{owners[name]} and {owner} both return a term named '{name}'; rename one of them"
                )
            terms[name], owners[name] = term, owner
    return terms


def evaluation_samples(task: Task, config: Config) -> Samples:
    """Return the split that is evaluated on: test, or validation taken from train."""
    if config.data.evaluate_on == "validation":
        assert task.validation is not None
        return task.validation
    return task.test


def _groups(samples: Sequence[Samples]) -> list[list[Samples]]:
    """Group neighbors that fit into one forward pass together: many small tasks take few passes."""
    groups: list[list[Samples]] = []
    rows = FORWARD_ROWS
    for one in samples:
        if rows + len(one) > FORWARD_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(one)
        rows += len(one)
    return groups
