"""What methods and plug-ins see of a run: the network, the previous one, the memory, the task, and randomness."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gplasc.config import Config
from gplasc.learning.pool import Pool
from gplasc.memory import Buffer
from gplasc.methods.base import Augment, Batch, Method, Part
from gplasc.models import Network, Outputs
from gplasc.random import Generators
from gplasc.streams import Samples, Stream, Task
from gplasc.streams.augment import Augmentation, contrastive, plain, replay, views

_FORWARD_ROWS = 512


class Context:
    """The state of a run that is open to methods and plug-ins.

    The previous model's outputs are computed lazily, once per part and step, and shared by all who ask.
    """

    network: Network
    previous: Network | None
    """The model as it was after the last task, frozen; None in the first task."""
    modules: nn.ModuleDict
    """Everything trainable: the network and what the method and the plug-ins brought."""
    previous_modules: nn.ModuleDict | None
    task: Task
    pool: Pool

    def __init__(
        self,
        config: Config,
        stream: Stream,
        device: torch.device,
        method: Method[Any],
        pulse: Callable[[str, float], None] = lambda phase, done: None,
    ) -> None:
        self.config = config
        self.stream = stream
        self.device = device
        self.method = method
        self.pulse = pulse
        self.random = Generators(config.seed)
        self.memory = Buffer(config.buffer)
        self.epoch = 0
        self.epochs = 0
        self.previous = None
        self.previous_modules = None
        self._previous_outputs: dict[int, Outputs] = {}
        data, size = config.data, stream.image_shape[-1]
        color = tuple(data.jitter * strength for strength in (0.4, 0.4, 0.4, 0.1))
        self.augmentations: Mapping[Augment, Augmentation] = {
            "contrastive": contrastive(
                size,
                stream.mean,
                stream.std,
                scale=(data.crop_scale, 1.0),
                flip=data.flip,
                jitter=(color[0], color[1], color[2], color[3]),
            ),
            "replay": replay(size, stream.mean, stream.std, padding=data.padding, flip=data.flip),
            "plain": plain(stream.mean, stream.std),
        }

    def set_modules(self, modules: nn.ModuleDict) -> None:
        """Take over everything trainable, the network among it."""
        self.modules, self.network = modules, _network_of(modules)

    def keep_previous(self) -> None:
        """Keep a copy of everything trainable that learns no more, in the mode the method wants."""
        self.previous_modules = copy.deepcopy(self.modules).requires_grad_(False)
        self.previous_modules.train((self.method.teacher or "eval") == "train")
        self.previous = _network_of(self.previous_modules)

    @property
    def seen(self) -> range:
        """The labels of all classes seen so far, the current task's included."""
        return range(self.task.classes.stop)

    def task_of(self, y: Tensor) -> Tensor:
        """Return the number of the task, from 0, that each label belongs to: (N,) to (N,)."""
        ends = torch.tensor(self.stream.classes_per_task).cumsum(0)
        return torch.bucketize(y.cpu(), ends, right=True)

    def part(
        self,
        x: Tensor,
        y: Tensor,
        *,
        views: int = 1,
        augmentation: Augment = "replay",
        extra: Mapping[str, Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> Part:
        """Augment images and bring them to the device: uint8 (b, C, H, W) to a part of ``views * b`` rows."""
        y = y.repeat(views)
        past = y < self.task.classes.start  # decided on the CPU, so the device is not waited for
        return Part(
            x=self.augment(x, augmentation, count=views, generator=generator),
            y=self.to_device(y),
            current=self.to_device((~past).nonzero().flatten()),
            past=self.to_device(past.nonzero().flatten()),
            views=views,
            extra={name: self.to_device(torch.cat([value] * views)) for name, value in (extra or {}).items()},
        )

    def augment(
        self, x: Tensor, kind: Augment, *, count: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return ``count`` views of each image, view after view, on the device."""
        generator = generator or self.random["augment"]
        return views(self.to_device(x), self.augmentations[kind], count, generator)

    def to_device(self, x: Tensor) -> Tensor:
        """Move a tensor to the device without waiting for it."""
        if self.device.type == "cuda" and x.device.type == "cpu":
            return x.pin_memory().to(self.device, non_blocking=True)
        return x.to(self.device)

    def previous_outputs(self, part: Part) -> Outputs:
        """Return what the previous model says about a part; computed once per part and step."""
        if self.previous is None:
            raise RuntimeError("there is no previous model in the first task")
        if id(part) not in self._previous_outputs:
            with torch.no_grad(), self.autocast():
                self._previous_outputs[id(part)] = self.previous(part.x)
        return self._previous_outputs[id(part)]

    def forget_step(self) -> None:
        """Drop what was computed for one step."""
        self._previous_outputs.clear()

    def autocast(self) -> torch.autocast:
        """Return the precision in which the networks run."""
        enabled = self.config.train.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    def memory_batch(self, count: int, generator: torch.Generator) -> tuple[Batch, dict[str, Tensor]]:
        """Draw a minibatch from the memory, and its further columns."""
        index = self.memory.sample(count, generator)
        rows = self.memory.rows(index)
        return Batch(rows.pop("x"), rows.pop("y"), index), rows

    def remember(self, old: Tensor, new: Tensor, **columns: Tensor) -> None:
        """Keep the memory's rows ``old`` and add the task's samples ``new``; ``columns`` are (old + new) rows each."""
        added = self.task.train.take(new)
        rows = {"x": added.x, "y": added.y}
        if len(self.memory):
            kept = self.memory.rows(old)
            rows = {name: torch.cat([kept[name], value]) for name, value in rows.items()}
        self.memory.replace({**rows, **columns})

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
        augmentation: Augment = "plain",
        *,
        generator: torch.Generator | None = None,
    ) -> Iterator[Outputs]:
        """Yield the frozen network's outputs on samples, a few hundred rows at a time."""
        for index in torch.arange(len(samples)).split(_FORWARD_ROWS):
            self.pulse("features", int(index[0]) / len(samples))
            x = self.augment(samples.take(index).x, augmentation, generator=generator)
            with self.frozen():
                outputs: Outputs = self.network(x)
            yield outputs

    def features(
        self,
        samples: Samples | Pool,
        augmentation: Augment = "plain",
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the frozen encoder's raw features, (N, D) float32 on the device."""
        found = [out.features.float() for out in self.embed(samples, augmentation, generator=generator)]
        return torch.cat(found) if found else torch.zeros(0, self.network.feature_dim, device=self.device)


def _network_of(modules: nn.ModuleDict) -> Network:
    network = modules["network"]
    assert isinstance(network, Network)
    return network
