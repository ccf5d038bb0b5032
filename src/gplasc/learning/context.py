"""What methods and plug-ins see of a run: the network, the previous one, the memory, the task, and randomness."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gplasc._io.transfer import transfer
from gplasc.learning.batch import AugmentationKind, Batch, ImageFormat, MethodTraits, Part
from gplasc.learning.devices import autocast, compile_encoder, new_scaler, prepare
from gplasc.learning.distributed import Processes
from gplasc.learning.pool import Pool
from gplasc.memory import Buffer
from gplasc.models import Network, Outputs
from gplasc.random import Generators
from gplasc.settings.types import Config
from gplasc.streams import Samples, Task
from gplasc.streams.augment import Augmentation, Contrastive, Plain, Replay, StoredViews

FORWARD_ROWS = 512
"""Rows that are read and augmented together outside training."""
CPU_ROWS = 128
"""Rows that a CPU encodes at once outside training: with more, what a layer returns does not fit into the caches."""


class Context:
    """The state of a run that methods and plug-ins work with."""

    network: Network
    modules: nn.ModuleDict
    """Everything trainable: the network and what the method and the plug-ins brought."""
    previous: nn.ModuleDict | None
    """`modules` as they were after the last task, frozen; None in the first task. See also `Part.previous`."""
    predictor: nn.Module | None
    """Maps raw features, (N, D), to scores of the classes seen, (N, C); None while a task is trained."""
    task: Task
    pool: Pool

    def __init__(
        self,
        config: Config,
        method: MethodTraits,
        network: Network,
        images: ImageFormat,
        *,
        device: torch.device,
        processes: Processes | None = None,
        compiled: bool = False,
        expected_tasks: int | None = None,
        num_classes: int = 0,
        on_progress: Callable[[str, float], None] = lambda phase, done: None,
    ) -> None:
        self.config = config
        self.method = method
        self.network = network
        self.images = images
        self.device = device
        self.processes = processes or Processes()
        self.scaler = new_scaler(device, config.train.precision)
        self._compiled = compiled
        self.expected_tasks = expected_tasks
        """How many tasks were announced; None if nobody knows."""
        self.num_classes = num_classes
        """For how many classes the heads have outputs: those announced, or those seen if they are more."""
        self.progress = on_progress
        self.random = Generators(config.seed)
        self.memory = Buffer(config.buffer)
        self.classes_per_task: list[int] = []
        """The number of classes of each task seen so far, the current task included."""
        self.epoch = 0
        self.epochs = 0
        self.previous = None
        self.previous_num_classes = 0
        self.predictor = None
        self.probe = config.probe
        """Settings of the linear probe."""
        self.signed = images.features or config.model.features == "signed"
        """Whether features can be negative."""
        self.flips = config.data.flip > 0 and not images.features
        """Whether augmentation mirrors images."""
        self._augmentations = new_augmentations(config, images)

    def set_modules(self, modules: nn.ModuleDict) -> None:
        """Take over everything trainable, the network included, and bring it to the device."""
        self.modules = prepare(modules, self.device)
        self.network = _network_of(self.modules)
        if self._compiled:
            compile_encoder(self.network)

    def keep_previous(self) -> None:
        """Keep a frozen copy of everything trainable, in the mode the method wants.

        Beside a method that does not need it, that is training mode, in which the network itself runs: outputs of equal
        weights on the same part are then equal.
        """
        self.previous = copy.deepcopy(self.modules).requires_grad_(False)
        self.previous.train(self.method.teacher != "eval")
        self.previous_num_classes = self.num_classes
        if self._compiled:
            compile_encoder(_network_of(self.previous))

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is kept here and decides how the run goes on: tensors and plain containers."""
        return {
            "classes_per_task": list(self.classes_per_task),
            "num_classes": self.num_classes,
            "previous_num_classes": self.previous_num_classes,
            "modules": self.modules.state_dict(),
            "previous": self.previous and self.previous.state_dict(),
            "predictor": self.predictor and self.predictor.state_dict(),
            "scaler": self.scaler.state_dict(),
            "memory": self.memory.state_dict(),
            "random": self.random.state_dict(),
        }

    def load_state_dict(
        self, state: Mapping[str, Any], *, grow: Callable[[int], None], new_predictor: Callable[[], nn.Module]
    ) -> None:
        """Restore what `state_dict` returned; other keys of ``state`` are ignored.

        Args:
            state: The state.
            grow: Gives all heads outputs for so many classes.
            new_predictor: Returns an untrained predictor for the classes seen.
        """
        self.classes_per_task = list(state["classes_per_task"])
        if state["previous"] is not None:
            grow(state["previous_num_classes"])
            self.keep_previous()
            assert self.previous is not None
            self.previous.load_state_dict(state["previous"])
        grow(state["num_classes"])
        self.modules.load_state_dict(state["modules"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.memory.load_state_dict(state["memory"])
        if state["predictor"] is not None:
            self.predictor = new_predictor()
            self.predictor.load_state_dict(state["predictor"])
        # Last: what was built above has drawn from the generators.
        self.random.load_state_dict(state["random"])

    @property
    def region_index(self) -> int:
        """The number of earlier tasks that brought new classes; a task may bring only images of known ones."""
        return max(sum(count > 0 for count in self.classes_per_task) - 1, 0)

    @property
    def first_anchor(self) -> int:
        """The lowest label that the task teaches: its first new class, or 0 if it brings known classes alone."""
        return self.task.classes.start if len(self.task.classes) else 0

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
        """Augment a batch and bring it to the device.

        Args:
            batch: The samples, b of them.
            views: How many augmented views of each image.
            augmentation: Which augmentation; default: the method's.
            generator: Source of randomness; default: the run's generator for augmentation.

        Returns:
            A part of ``views * b`` rows.
        """
        y = batch.y.repeat(views)
        past = y < self.task.classes.start  # decided on the CPU, which does not synchronize the device
        return Part(
            x=self._augment(batch, augmentation or self.method.augmentation, views, generator),
            y=self.to_device(y),
            current=self.to_device((~past).nonzero().flatten()),
            past=self.to_device(past.nonzero().flatten()),
            columns={n: self.to_device(torch.cat([value] * views)) for n, value in batch.columns.items()},
            _teach=self._teach,
        )

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw a minibatch from the memory, with its further columns; fewer rows if there are not as many."""
        index = self.memory.sample(count, generator)
        rows = self.memory.rows(index)
        return Batch(rows.pop("x"), rows.pop("y"), rows, index)

    def forward(self, part: Part) -> Outputs:
        """Return the network's outputs for all rows of a part, also if they are spread over several processes."""
        with self.autocast():
            return self._outputs(self.network, part)

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a loss by the parameters that have one in this step, (P,) in a fixed order.

        The gradients of the step are left alone. A parameter that the loss does not depend on has gradient 0.
        """
        parameters = self._trained()
        values = torch.autograd.grad(
            self.scaler.scale(loss), parameters, allow_unused=True, materialize_grads=True
        )
        gradient = self.processes.mean(torch.cat([value.reshape(-1) for value in values]))
        return gradient / self.scaler.scale(torch.ones_like(loss)) if self.scaler.is_enabled() else gradient

    def flat_gradient(self) -> Tensor:
        """Return the gradients of this step as one vector, (P,)."""
        return torch.cat([p.grad.reshape(-1) for p in self._trained() if p.grad is not None])

    def set_gradient(self, gradient: Tensor) -> None:
        """Replace the gradients of this step by a vector, (P,), in the order of `flat_gradient`."""
        parameters = self._trained()
        for parameter, values in zip(
            parameters, gradient.split([p.numel() for p in parameters]), strict=True
        ):
            assert parameter.grad is not None
            parameter.grad.copy_(values.view_as(parameter))

    def augment(self, x: Tensor, kind: AugmentationKind) -> Tensor:
        """Return an augmented view of each image, (N, C, H, W) uint8, on the device."""
        return self._augmentations[kind](self.to_device(x), self.random["augment"])

    def to_device(self, x: Tensor) -> Tensor:
        """Move a tensor to the device without synchronizing it."""
        return transfer(x, self.device)

    def autocast(self) -> torch.autocast:
        """Return the precision in which the networks run."""
        return autocast(self.device, self.config.train.precision)

    def remember(self, old: Tensor, new: Tensor, **columns: Tensor) -> None:
        """Keep the memory's rows ``old`` and add the task's samples ``new``; ``columns`` are (old + new) rows each."""
        added = self.task.train.take(new)
        self.memory.refill(old, {"x": added.x, "y": added.y}, **columns)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Evaluation mode without gradients; the modes are put back afterwards."""
        training = self.network.training
        self.network.eval()
        try:
            with torch.no_grad(), self.autocast():
                yield
        finally:
            self.network.train(training)

    def embed(
        self,
        samples: Samples | Pool,
        augmentation: AugmentationKind = "plain",
        *,
        generator: torch.Generator | None = None,
    ) -> Iterator[Outputs]:
        """Yield the frozen network's outputs on samples, a few hundred rows at a time."""
        for index in torch.arange(len(samples)).split(FORWARD_ROWS):
            self.progress("features", int(index[0]) / len(samples))
            yield self.embed_rows(samples.take(index), augmentation, generator=generator)

    def embed_rows(
        self,
        rows: Samples | Batch,
        augmentation: AugmentationKind,
        *,
        generator: torch.Generator | None = None,
    ) -> Outputs:
        """Return the frozen network's outputs on some samples, all at once."""
        share = self._augment(rows, augmentation, 1, generator)
        with self.frozen():
            features = self.processes.gather(self._encode_frozen(share), len(rows))
            return self.network.outputs(features)

    def features(
        self,
        samples: Samples | Pool,
        augmentation: AugmentationKind = "plain",
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the frozen encoder's raw features, (N, D) float32 on the device."""
        found = [out.features.float() for out in self.embed(samples, augmentation, generator=generator)]
        return torch.cat(found) if found else torch.zeros(0, self.network.feature_dim, device=self.device)

    def _augment(
        self,
        rows: Samples | Batch,
        kind: AugmentationKind,
        views: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Return this process's share of the views of all rows; the random numbers of all of them are drawn."""
        augmentation, generator = self._augmentations[kind], generator or self.random["augment"]
        if self.processes.size == 1:
            resident = rows.resident if isinstance(rows, Batch) else None
            return augmentation(
                self.to_device(rows.x) if resident is None else resident, generator, views=views
            )
        count = views * len(rows)
        share = self.processes.share(count)
        drawn = augmentation.draw(count, rows.x.shape[2], rows.x.shape[3], generator)
        images = rows.x[torch.arange(count)[share] % max(len(rows), 1)]
        return augmentation.apply(self.to_device(images), drawn[share])

    def _encode_frozen(self, x: Tensor) -> Tensor:
        """Return raw features, (N, D), of a network whose rows do not depend on each other."""
        if self.device.type != "cpu" or len(x) <= CPU_ROWS:
            whole: Tensor = self.network.encoder(x)
            return whole
        # Pieces of about the same size: for a rest of one or two rows, kernels of torch round differently.
        pieces = x.tensor_split(-(-len(x) // CPU_ROWS))
        return torch.cat([self.network.encoder(piece) for piece in pieces])

    def _outputs(self, network: Network, part: Part) -> Outputs:
        """Encode this process's share of a part and return the outputs for all of its rows."""
        return network.outputs(self.processes.gather(network.encoder(part.x), len(part.y)))

    def _teach(self, part: Part) -> Outputs:
        if self.previous is None:
            raise RuntimeError("there is no previous model in the first task")
        with torch.no_grad(), self.autocast():
            return self._outputs(_network_of(self.previous), part)

    def _trained(self) -> list[nn.Parameter]:
        """Return the parameters that have a gradient in this step; the others do not take part."""
        return [parameter for parameter in self.modules.parameters() if parameter.grad is not None]


def _network_of(modules: nn.ModuleDict) -> Network:
    network = modules["network"]
    assert isinstance(network, Network)
    return network


def new_augmentations(config: Config, images: ImageFormat) -> Mapping[AugmentationKind, Augmentation]:
    """Return the augmentations of images, or of features, by their kind."""
    if images.features:
        stored = StoredViews(images.shape[0])
        return {"contrastive": stored, "replay": stored, "plain": StoredViews(1)}
    data, size = config.data, images.shape[-1]
    color = tuple(data.jitter * strength for strength in (0.4, 0.4, 0.4, 0.1))
    return {
        "contrastive": Contrastive(
            size,
            images.mean,
            images.std,
            scale=(data.crop_scale, 1.0),
            flip=data.flip,
            jitter=(color[0], color[1], color[2], color[3]),
        ),
        "replay": Replay(size, images.mean, images.std, padding=data.padding, flip=data.flip),
        "plain": Plain(images.mean, images.std),
    }
