"""What methods and plug-ins see of a run: the network, the previous one, the memory, the task, and randomness."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gplasc._io.transfer import transfer
from gplasc.learning.batch import AugmentationKind, Batch, Expected, ImageFormat, Part
from gplasc.learning.devices import Hardware
from gplasc.learning.pool import Pool
from gplasc.memory import Buffer
from gplasc.models import Network, Outputs
from gplasc.models.statistics import evaluating
from gplasc.random import Generators
from gplasc.settings.types import Config
from gplasc.streams import Samples, Task
from gplasc.streams.augment import Augmentation, Contrastive, Plain, Replay, StoredViews

if TYPE_CHECKING:
    from gplasc.learning.contract import Method

FORWARD_ROWS = 512
"""Rows that are read and augmented together outside training."""
CPU_ROWS = 128
"""Rows that a CPU encodes at once outside training: with more, what a layer returns does not fit into the caches."""


class Context:
    """The state of a run that methods and plug-ins work with; a learner has one as ``learner.ctx``.

    Attributes:
        method: The method of the run; a plug-in may look at its class attributes and properties.
        network: The encoder with its heads.
        modules: Everything trainable: the network and what the method and the plug-ins brought, by name.
        previous: `modules` as they were after the last task, frozen; None in the first task. See also `Part.previous`.
        predictor: Maps raw features, (N, D), to scores of the classes seen, (N, C); None while a task is trained.
        memory: What is remembered.
        pool: What batches are drawn from in this task.
        task: The current task.
        classes_per_task: The number of classes of each task seen so far, the current task included.
        region: The number of earlier tasks that brought new classes; None if this one brings no new class.
        first_anchor: The lowest label that the task teaches: its first new class, or 0 if it has known classes alone.
        expected_tasks: How many tasks were announced; None if it is not known.
        num_classes: For how many classes the heads have outputs: those announced, or those seen if they are more.
        epoch: The epoch of the current task, from 0.
        epochs: How many epochs the current task has.
        random: A random generator for each name.
        device: Where the network is.
        probe: Settings of the linear probe.
        signed: Whether features can be negative; None for an encoder of the user's own, of which it is not known.
        progress: Reports a phase of the work outside training and how much of it is done, from 0 to 1.
    """

    previous: nn.ModuleDict | None
    predictor: nn.Module | None
    task: Task
    pool: Pool

    def __init__(
        self,
        config: Config,
        method: Method[Any],
        network: Network,
        expected: Expected,
        hardware: Hardware,
        on_progress: Callable[[str, float], None],
    ) -> None:
        self.method = method
        self.network = network
        self.modules = nn.ModuleDict({"network": network})
        self.previous = None
        self.predictor = None
        self.memory = Buffer(config.buffer)
        self.classes_per_task: list[int] = []
        self.region: int | None = None
        self.first_anchor = 0
        self.expected_tasks = expected.tasks
        self.num_classes = expected.classes
        self.epoch = 0
        self.epochs = 0
        self.random = Generators(config.seed)
        self.device = hardware.device
        self.probe = config.probe
        own = ":" in config.model.encoder
        self.signed = expected.images.features or (None if own else config.model.features == "signed")
        self._flips = config.data.flip > 0 and not expected.images.features
        self.progress = on_progress
        self._hardware = hardware
        self._processes = hardware.processes
        self._previous_num_classes = 0
        self._augmentations = new_augmentations(config, expected.images)

    @property
    def seen(self) -> range:
        """The labels of all classes seen so far, the current task's included."""
        return range(sum(self.classes_per_task))

    def task_of(self, y: Tensor) -> Tensor:
        """Return the number of the task, from 0, that each label belongs to: (N,) to (N,)."""
        ends = torch.tensor(self.classes_per_task).cumsum(0)
        return torch.bucketize(y.cpu(), ends, right=True)

    def part(
        self,
        batch: Batch,
        *,
        views: int = 1,
        augmentation: AugmentationKind | None = None,
        generator: torch.Generator | None = None,
    ) -> Part:
        """Augment a batch of b samples and bring it to the device, as a part of ``views * b`` rows.

        Args:
            batch: The samples.
            views: How many augmented views of each image.
            augmentation: Which augmentation; default: the method's.
            generator: Source of randomness; default: the run's generator for augmentation.
        """
        y, device = batch.y.repeat(views), self.device
        past = y < self.task.classes.start  # decided on the CPU, which does not synchronize the device
        columns = {name: torch.cat([value] * views) for name, value in batch.columns.items()}
        return Part(
            x=self._augment(batch, augmentation or self.method.augmentation, views, generator),
            y=transfer(y, device),
            current=transfer((~past).nonzero().flatten(), device),
            past=transfer(past.nonzero().flatten(), device),
            columns={name: transfer(value, device) for name, value in columns.items()},
            _ctx=self,
        )

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw a minibatch from the memory, with its further columns; fewer rows if there are not as many."""
        index = self.memory.sample(count, generator)
        return Batch.of(self.memory.rows(index), index)

    def forward(self, part: Part, network: Network | None = None) -> Outputs:
        """Return the outputs of a network, by default the present one, for all rows of a part.

        Of several processes each encodes its share of the rows.
        """
        network = network or self.network
        with self._hardware.autocast():
            features = network.encoder(part.x)
            if self._processes.size > 1:
                features = self._processes.gather(features, len(part.y))
            return Outputs(features, network)

    def augment(self, x: Tensor, kind: AugmentationKind) -> Tensor:
        """Return an augmented view of each image, (N, C, H, W) uint8, on the device."""
        return self._augmentations[kind](self.to_device(x), self.random["augment"])

    def to_device(self, x: Tensor) -> Tensor:
        """Move a tensor to the device without synchronizing it."""
        return transfer(x, self.device)

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a loss by the parameters that have one in this step, (P,) in a fixed order.

        The gradients of the step are left alone. A parameter that the loss does not depend on has gradient 0.
        """
        parameters, scaler = self._trained(), self._hardware.scaler
        scaled = scaler.scale(loss)
        values = torch.autograd.grad(scaled, parameters, allow_unused=True, materialize_grads=True)
        gradient = self._processes.mean(torch.cat([value.reshape(-1) for value in values]))
        return gradient / scaler.scale(torch.ones_like(loss)) if scaler.is_enabled() else gradient

    def flat_gradient(self) -> Tensor:
        """Return the gradients of this step as one vector, (P,)."""
        return torch.cat([p.grad.reshape(-1) for p in self._trained() if p.grad is not None])

    def set_gradient(self, gradient: Tensor) -> None:
        """Replace the gradients of this step by a vector, (P,), in the order of `flat_gradient`."""
        parameters = self._trained()
        pieces = gradient.split([parameter.numel() for parameter in parameters])
        for parameter, values in zip(parameters, pieces, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(values.view_as(parameter))

    def remember(self, old: Tensor, new: Tensor, **columns: Tensor) -> None:
        """Keep the memory's rows ``old`` and add the task's samples ``new``; ``columns`` are (old + new) rows each."""
        added = self.task.train.take(new)
        self.memory.refill(old, {"x": added.x, "y": added.y}, **columns)

    def embed(
        self,
        samples: Samples | Pool,
        augmentation: AugmentationKind = "plain",
        *,
        generator: torch.Generator | None = None,
    ) -> Iterator[Outputs]:
        """Yield the outputs of the network in evaluation mode on samples, a few hundred rows at a time."""
        for index in torch.arange(len(samples)).split(FORWARD_ROWS):
            self.progress("features", int(index[0]) / len(samples))
            yield self._embed(samples.take(index), augmentation, generator)

    def features(
        self,
        samples: Samples | Pool,
        augmentation: AugmentationKind = "plain",
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the raw features of the encoder in evaluation mode, (N, D) float32 on the device."""
        features = [torch.zeros(0, self.network.feature_dim, device=self.device)]
        features += [out.features.float() for out in self.embed(samples, augmentation, generator=generator)]
        return torch.cat(features)

    def class_means(self) -> Tensor:
        """Return the mean unit feature of what is remembered of each class, (C, D) of unit length; 0 if nothing is.

        Each image counts with its mirror image, if augmentation mirrors images.
        """
        x, labels = self.memory["x"], self.to_device(self.memory.labels)
        total = torch.zeros(len(self.seen), self.network.feature_dim, device=self.device)
        for images in [x, x.flip(-1)] if self._flips else [x]:
            features = self.features(Samples(images, self.memory.labels))
            total.index_add_(0, labels, nn.functional.normalize(features, dim=1))
        return nn.functional.normalize(total, dim=1)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is kept here and decides how the run goes on: tensors and plain containers."""
        return {
            "classes_per_task": list(self.classes_per_task),
            "num_classes": self.num_classes,
            "previous_num_classes": self._previous_num_classes,
            "modules": self.modules.state_dict(),
            "previous": self.previous and self.previous.state_dict(),
            "predictor": self.predictor and self.predictor.state_dict(),
            "scaler": self._hardware.scaler.state_dict(),
            "memory": self.memory.state_dict(),
            "random": self.random.state_dict(),
        }

    def load_state_dict(
        self, state: Mapping[str, Any], *, grow: Callable[[int], None], new_predictor: Callable[[], nn.Module]
    ) -> None:
        """Restore what `state_dict` returned; other keys of ``state`` are ignored.

        ``grow`` gives all heads outputs for so many classes.
        """
        self.classes_per_task = list(state["classes_per_task"])
        if state["previous"] is not None:
            grow(state["previous_num_classes"])
            self._keep_previous().load_state_dict(state["previous"])
        grow(state["num_classes"])
        self.modules.load_state_dict(state["modules"])
        if self._hardware.scaler.is_enabled():
            self._hardware.scaler.load_state_dict(state["scaler"])
        self.memory.load_state_dict(state["memory"])
        if state["predictor"] is not None:
            self.predictor = new_predictor()
            self.predictor.load_state_dict(state["predictor"])
        # Last: what was built above has drawn from the generators.
        self.random.load_state_dict(state["random"])

    def _enter(self, task: Task, past: Sequence[Task]) -> None:
        """Set what follows from the task and the memory alone."""
        self.task = task
        self.classes_per_task[task.index :] = [len(task.classes)]
        brought = sum(count > 0 for count in self.classes_per_task)
        self.region = brought - 1 if len(task.classes) else None
        self.first_anchor = task.classes.start if len(task.classes) else 0
        self.predictor = None
        if self.method.pool == "everything":
            self.pool = Pool([*(other.train for other in past), task.train])
        else:
            self.pool = Pool([task.train], None if self.method.pool == "current" else self.memory)

    def _keep_previous(self) -> nn.ModuleDict:
        """Keep and return a frozen copy of everything trainable, in the mode the method wants.

        For a method that does not need it, that is training mode, in which the network itself runs: outputs of equal
        weights on the same part are then equal.
        """
        self.previous = self._hardware.prepare(copy.deepcopy(self.modules).requires_grad_(False))
        self.previous.train(self.method.teacher != "eval")
        self._previous_num_classes = self.num_classes
        return self.previous

    def _augment(
        self, rows: Samples | Batch, kind: AugmentationKind, views: int, generator: torch.Generator | None
    ) -> Tensor:
        """Return this process's share of the views of all rows; the random numbers of all of them are drawn."""
        augmentation, count = self._augmentations[kind], views * len(rows.y)
        height, width = rows.x.shape[2:]
        drawn = augmentation.draw(count, height, width, generator or self.random["augment"])
        if self._processes.size > 1:
            share = self._processes.share(count)
            images = rows.x[torch.arange(count)[share] % max(len(rows.y), 1)]
            return augmentation.apply(transfer(images, self.device), drawn[share])
        images = transfer(rows.x, self.device)
        return augmentation.apply(images.repeat(views, 1, 1, 1) if views > 1 else images, drawn)

    def _trained(self) -> list[nn.Parameter]:
        """Return the parameters that have a gradient in this step; the others do not take part."""
        return [parameter for parameter in self.modules.parameters() if parameter.grad is not None]

    def _embed(
        self, rows: Samples | Batch, augmentation: AugmentationKind, generator: torch.Generator | None
    ) -> Outputs:
        """Return the outputs of the network in evaluation mode on some samples, all at once."""
        x = self._augment(rows, augmentation, 1, generator)
        # Pieces of about the same size: for a rest of one or two rows, kernels of torch round differently.
        pieces = x.tensor_split(-(-len(x) // CPU_ROWS) or 1) if self.device.type == "cpu" else (x,)
        with evaluating(self.network), torch.no_grad(), self._hardware.autocast():
            share = torch.cat([self.network.encoder(piece) for piece in pieces])
            return Outputs(self._processes.gather(share, len(rows)), self.network)


def new_augmentations(config: Config, images: ImageFormat) -> Mapping[AugmentationKind, Augmentation]:
    """Return the augmentations of images, or of features, by their kind."""
    if images.features:
        stored = StoredViews(images.shape[0])
        return {"contrastive": stored, "replay": stored, "plain": StoredViews(1)}
    data, size, mean, std = config.data, images.shape[-1], images.mean, images.std
    scale, strength, hue = (data.crop_scale, 1.0), data.jitter * 0.4, data.jitter * 0.1
    jitter = (strength, strength, strength, hue)
    return {
        "contrastive": Contrastive(size, mean, std, scale=scale, flip=data.flip, jitter=jitter),
        "replay": Replay(size, mean, std, padding=data.padding, flip=data.flip),
        "plain": Plain(mean, std),
    }
