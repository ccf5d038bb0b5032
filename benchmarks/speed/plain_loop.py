"""A straightforward loop: one image after the other with PIL, contiguous tensors, a Gram matrix for every term."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from benchmarks.speed.clock import alternate, ratio
from benchmarks.speed.figure import Figure
from benchmarks.speed.steps import FULL_WIDTH, StepSize, learner_in_second_task
from PIL import Image, ImageEnhance
from torch import Tensor, nn
from torch.nn import functional as F

from gplasc.criterion.regions import Regions
from gplasc.learning import Learner
from gplasc.learning.pool import order_batches
from gplasc.models import Network

_MEAN, _STD = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.15)


def measure_peer(quick: bool) -> list[Figure]:
    """Measure epochs of Co2L + GPLASC, as they are by default, against the same written in the straightforward way."""
    sizes = (StepSize(4, 8, 2, 8),) if quick else (StepSize(16, 128, 5), StepSize(FULL_WIDTH, 32, 3))
    figures = []
    for size in sizes:
        ours = learner_in_second_task("co2l", ("gplasc",), size)
        exact = learner_in_second_task("co2l", ("gplasc",), size, settings={"train.precision": "float32"})
        plain = PlainLoop(learner_in_second_task("co2l", ("gplasc",), size), seed=0)
        works = {"ours": partial(_epoch, ours), "float32": partial(_epoch, exact), "plain": plain.epoch}
        times = alternate(works, size.rounds)
        bar = 2.2 if size.width == FULL_WIDTH else 2.5
        name = f"straightforward loop / ours, epoch of co2l+gplasc, width {size.width}"
        figures.append(Figure("peer", name, ratio(times, "plain", "ours"), bar, "least"))
        figures.append(Figure("peer", f"{name}, in float32", ratio(times, "plain", "float32")))
    return figures


def _epoch(learner: Learner) -> None:
    for index in _order(learner):
        learner.step(learner.ctx.pool.take(index))


def _order(learner: Learner) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    batches = order_batches(learner.ctx.pool, learner.method.pool, learner.config.train.batch, generator)
    return [index for index in batches if len(index) > 1]


class PlainLoop:
    """Epochs of Co2L + GPLASC without anything that is fast.

    Args:
        learner: A learner in its second task, whose networks, samples and settings are used.
        seed: Seed of the augmentation.
    """

    def __init__(self, learner: Learner, seed: int) -> None:
        ctx = learner.ctx
        assert ctx.previous is not None
        assert ctx.network.projection is not None
        previous = ctx.previous["network"]
        assert isinstance(previous, Network)
        assert previous.projection is not None
        self._learner = learner
        self._encoder, self._head = ctx.network.encoder, ctx.network.projection
        self._previous, self._previous_head = previous.encoder, previous.projection
        learner.step(ctx.pool.take(torch.arange(4)))  # the region of the task is known after a step
        for encoder in (self._encoder, self._previous):
            encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        regions = ctx.modules["gplasc"]
        assert isinstance(regions, Regions)
        self._threshold, self._target = regions.region(1).k, regions.vertices[1]
        self._random = _Draws(seed)
        self._first = ctx.task.classes.start
        self._optimizer = torch.optim.SGD(ctx.modules.parameters(), lr=0.01, momentum=0.9, foreach=False)

    def epoch(self) -> None:
        """Visit every sample of task and memory once."""
        for index in _order(self._learner):
            batch = self._learner.ctx.pool.take(index)
            self.step(self.views(batch.x), batch.y.repeat(2))

    def views(self, x: Tensor) -> Tensor:
        """Augment (N, 3, H, W) uint8 twice, image by image: (2N, 3, H, W) float32."""
        arrays = x.permute(0, 2, 3, 1).contiguous().numpy()
        return torch.stack([_augment(array, x.shape[-1], self._random) for _ in range(2) for array in arrays])

    def step(self, x: Tensor, y: Tensor) -> None:
        """Take one optimizer step: SupCon, relation distillation, range, position, feature distillation."""
        features = _pooled(self._encoder, x)
        z = F.normalize(self._head.layers(features), dim=1)  # type: ignore[operator]
        with torch.no_grad():
            before = _pooled(self._previous, x)
            z_before = F.normalize(self._previous_head.layers(before), dim=1)  # type: ignore[operator]
        past, current = y < self._first, y >= self._first
        loss = _contrast(z, y, current) + _relations(z, z_before)
        loss = loss + sum(self._region_terms(features[current], y[current]))
        loss = loss + (features[past] - before[past]).square().sum(1).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

    def _region_terms(self, features: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        unit = F.normalize(features, dim=1)
        cosines = unit @ unit.T
        other = y[:, None] != y[None, :]
        classes = torch.stack([unit[y == label].mean(0) for label in y.unique()])
        return F.relu(self._threshold - cosines[other]).mean(), (
            classes.mean(0) - self._target
        ).square().sum()


def _pooled(encoder: nn.Module, x: Tensor) -> Tensor:
    """Features as the encoder computes them, but on contiguous tensors."""
    return encoder.maps(x.contiguous()).mean((2, 3))  # type: ignore[operator, no-any-return]


def _contrast(z: Tensor, y: Tensor, anchors: Tensor) -> Tensor:
    similarity = (z @ z.T) / 0.1
    self_mask = torch.eye(len(z), dtype=torch.bool)
    positive = (y[:, None] == y[None, :]) & ~self_mask
    log_probability = similarity - torch.logsumexp(
        similarity.masked_fill(self_mask, -1e9), dim=1, keepdim=True
    )
    mean = (log_probability * positive).sum(1) / positive.sum(1).clamp(min=1)
    return -(0.1 / 0.07) * (mean * anchors).sum() / len(z)


def _relations(z: Tensor, before: Tensor) -> Tensor:
    self_mask = torch.eye(len(z), dtype=torch.bool)
    now = F.log_softmax((z @ z.T / 0.2).masked_fill(self_mask, -1e9), dim=1)
    then = F.softmax((before @ before.T / 0.01).masked_fill(self_mask, -1e9), dim=1)
    return -(then * now).sum(1).mean()


# ---- one image at a time, as torchvision's transforms do on PIL images ---------------------------------------------


class _Draws:
    """Random numbers one at a time from torch, as torchvision's transforms draw them."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        return float(torch.empty(1).uniform_(low, high, generator=self._generator).item())

    def randint(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=self._generator).item())

    def order(self, count: int) -> list[int]:
        return torch.randperm(count, generator=self._generator).tolist()


def _crop(image: Image.Image, size: int, rng: _Draws) -> Image.Image:
    width, height = image.size
    for _ in range(10):
        area = width * height * rng.uniform(0.2, 1.0)
        aspect = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.randint(0, height - h), rng.randint(0, width - w)
            box = (left, top, left + w, top + h)
            return image.crop(box).resize((size, size), Image.Resampling.BILINEAR)
    return image.resize((size, size), Image.Resampling.BILINEAR)


def _hue(image: Image.Image, shift: float) -> Image.Image:
    h, s, v = image.convert("HSV").split()
    turned = (np.array(h, dtype=np.int16) + round(shift * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


def _jitter(image: Image.Image, rng: _Draws) -> Image.Image:
    for step in rng.order(4):
        if step == 3:
            image = _hue(image, rng.uniform(-0.1, 0.1))
        else:
            enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[step]
            image = enhance(image).enhance(rng.uniform(0.6, 1.4))
    return image


def _augment(array: np.ndarray, size: int, rng: _Draws) -> Tensor:
    image = _crop(Image.fromarray(array), size, rng)
    if rng.uniform() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if rng.uniform() < 0.8:
        image = _jitter(image, rng)
    if rng.uniform() < 0.2:
        image = image.convert("L").convert("RGB")
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div_(255)
    return tensor.sub_(_MEAN).div_(_STD)
