"""A classifier whose encoder, or an adapter on a frozen one, is trained by a method, with a memory of images."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from gplasc.classifier._calibration import Calibration
from gplasc.classifier._gate import Figures, Label
from gplasc.classifier._model import Model, Options, Results, Work
from gplasc.classifier._pipeline import Pipeline
from gplasc.classifier._rows import Rows
from gplasc.learning import Expected, ImageFormat, Learner
from gplasc.learning.checkpoints import digest
from gplasc.memory.per_task import equal_shares, surplus
from gplasc.methods import find_method
from gplasc.models import Encoder
from gplasc.runs.build import build_learner
from gplasc.runs.features import FeatureExtractor
from gplasc.streams import Samples, Task
from gplasc.streams.dataset import sample_rows

_EVALUATED = 256


class Trained(Model):
    """A learner, and images that are held out for the accuracies."""

    kind = "trained"
    measured = "held-out images"

    def __init__(self, options: Options, num_classes: int = 1) -> None:
        super().__init__(options)
        config, self._first_classes = options.config, num_classes
        encoder, self._images = replace(options, encoder=copy.deepcopy(options.encoder)).built_encoder()
        learned, self._extractor = self._images, None
        if config.model.encoder_lr == 0:
            views = config.model.feature_views if find_method(config.method).trains else 0
            self._extractor = FeatureExtractor(
                encoder, config, self._images, views=views, device=options.device
            )
            learned = ImageFormat(self._extractor.feature_shape, (), (), features=True)
        expected = Expected(learned, num_classes)
        self.learner: Learner = build_learner(config, expected, encoder=encoder, device=options.device)
        self._held = Samples(torch.zeros(0), torch.zeros(0, dtype=torch.int64))
        self._held_month = torch.zeros(0, dtype=torch.int64)

    @property
    def frozen_encoder(self) -> Encoder | None:
        """The encoder if it is frozen; its weights are not part of the learner's."""
        return self._extractor.encoder if self._extractor else None

    @property
    def kept(self) -> dict[str, int]:
        """How many rows of each kind are kept."""
        memory, held = len(self.learner.ctx.memory), len(self._held)
        return {"digests": len(self.rows), "rows of the memory": memory, "held-out images": held}

    # ---- learning ----------------------------------------------------------------------------------------------

    def _absorb(self, images: Iterator[Tensor]) -> tuple[Tensor, list[bytes]]:
        rows = list(images)
        return torch.stack(rows) if rows else torch.zeros(0), []

    def _learn(self, old: Self, added: Rows, work: Work) -> Figures | None:
        """Learn one more task, or the rest of it, in a learner of its own."""
        index, first_new, y = len(self.tasks), len(old.names), added.y
        # The heads are built for the classes of the first task.
        self._take(type(self)(self.options, len(self.names)) if not index else self._copied())
        held = sample_rows(y, self._count_held_out, self.options.config.seed, f"held out/{index}")
        train, test = (~held).nonzero().flatten(), held.nonzero().flatten()
        x = plain = added.x
        if self._extractor is not None:
            x = self._extractor.with_views(x)
            plain = x[:, :1]
        task = Task(
            index=index,
            classes=range(first_new, len(self.names)),
            class_names=tuple(map(str, self.names[first_new:])),
            train=Samples(x[train], y[train]),
            test=Samples(plain[test], y[test]),
        )
        joined = task.test
        if len(self._held):
            joined = Samples(torch.cat([self._held.x, joined.x]), torch.cat([self._held.y, joined.y]))
        month = torch.cat([self._held_month, torch.full((len(test),), index)])
        before = old._scores(joined.x).argmax(1) if index and len(joined) else torch.full((len(joined),), -1)
        self.learner.callbacks = tuple(work.callbacks)
        frozen = self.frozen_encoder.state_dict() if self.frozen_encoder else {}  # decides the features
        work.resume(self.learner, digest({**frozen, "images": added.digest, "y": y}))
        if self.learner.position.task == index:
            self.learner.learn_task(task, evaluate=False)
        self.rows = Rows.join([self.rows, added.dropped(self.rows.x)])
        self._measure(joined, month)
        self.results = replace(self.results, before=before)
        kept = torch.ones(len(joined), dtype=torch.bool)  # at most as many as the memory holds
        if len(joined):
            kept[surplus(joined.y, equal_shares(self.options.config.buffer, len(self.names)))] = False
        self._held, self._held_month = joined.take(kept), month[kept]
        r = self.results
        return Figures.of(r.y, r.month == index, before, r.after, len(old.labels)) if len(joined) else None

    def _count_held_out(self, images: int) -> int:
        share: float = self.options.given["held_out"]
        return min(round(share * images), images - 1)

    def _measure(self, held: Samples, month: Tensor) -> None:
        """Calibrate on held-out images, and keep their predictions."""
        place = {number: place for place, outputs in enumerate(self._groups()) for number in outputs}
        y = torch.tensor([place[number] for number in held.y.tolist()], dtype=torch.int64)
        scores = self._scores(held.x) if len(y) else torch.zeros(0, len(self.labels))
        measured = len(y) and scores.shape[1] > 1
        reject = self.options.given["reject"]
        self.calibration = Calibration.of(scores, None, y, reject) if measured else None
        self.results = Results.of(y, month, scores, torch.ones_like(y, dtype=torch.bool), self.calibration)

    def _copied(self) -> Trained:
        """Return a model whose learner is in the same state, so that this one stays as it is."""
        own = self._extractor.encoder if self._extractor else self.learner.ctx.network.encoder
        options = replace(self.options, encoder=own if self.options.encoder else None)
        new = type(self)(options, self._first_classes)
        new.learner.load_state_dict(copy.deepcopy(self.learner.state_dict()))
        return new

    def _take(self, other: Trained) -> None:
        self._extractor, self.learner, self._first_classes = (
            other._extractor,
            other.learner,
            other._first_classes,
        )

    def _groups(self) -> list[list[int]]:
        """Return the outputs of each label, in the order of `labels`."""
        return [[n for n, name in enumerate(self.names) if name == label] for label in self.labels]

    def _scores(self, x: Tensor) -> Tensor:
        """Return the scores (N, labels) of images or features, on the CPU."""
        ctx, groups, parts = self.learner.ctx, self._groups(), []
        assert ctx.predictor is not None
        for rows in x.split(_EVALUATED):
            with torch.no_grad():
                scores = ctx.predictor(ctx.features(Samples(rows, torch.zeros(len(rows), dtype=torch.int64))))
            parts.append(
                torch.stack([scores[:, outputs].logsumexp(1) for outputs in groups], 1).cpu().float()
            )
        return torch.cat(parts)

    # ---- edits: approximate ------------------------------------------------------------------------------------

    def _forget(self, label: Label) -> None:
        """Remove the images and outputs of a class; what the network learned from them stays."""
        gone = torch.tensor([number for number, name in enumerate(self.names) if name == label])
        self._take(self._copied())
        memory = self.learner.ctx.memory
        if len(memory):
            memory.replace(memory.rows((~torch.isin(memory["y"], gone)).nonzero().flatten()))
        self.rows = self.rows.take(~torch.isin(self.rows.y, gone))
        self.names = [None if name == label else name for name in self.names]
        stays = ~torch.isin(self._held.y, gone)
        self._held, self._held_month = self._held.take(stays), self._held_month[stays]
        self._measure(self._held, self._held_month)

    def _merge(self, one: Label, other: Label) -> None:
        """Add up the outputs of two classes."""
        self.names = [one if name == other else name for name in self.names]
        self._measure(self._held, self._held_month)

    # ---- prediction and files ----------------------------------------------------------------------------------

    def pipeline(self) -> Pipeline:
        """Return what predicts, with the classes in sorted order."""
        ctx = self.learner.ctx
        assert ctx.predictor is not None
        encoder: nn.Module = ctx.network.encoder
        if self._extractor:
            encoder = nn.Sequential(self._extractor.encoder, encoder)
        by_label = dict(zip(self.labels, self._groups(), strict=True))
        groups = [by_label[label] for label in self.sorted_labels]
        # Copies: evaluation and training switch the mode of the learner's modules.
        encoder, predictor = copy.deepcopy(encoder), copy.deepcopy(ctx.predictor)
        made = Pipeline(self._images, encoder, predictor, groups=groups, calibration=self.calibration)
        return made.to(ctx.device).eval()

    def tensors(self) -> dict[str, Any]:
        """Return the learner's state and the held-out images."""
        held = {"x": self._held.x, "y": self._held.y, "month": self._held_month}
        return {"learner": self.learner.state_dict(), "held": held, "classes": self._first_classes}

    def load_tensors(self, state: Mapping[str, Any]) -> None:
        """Take back what `tensors` returned."""
        self._take(type(self)(self.options, state["classes"]))
        self.learner.load_state_dict(state["learner"])
        self._held, self._held_month = Samples(state["held"]["x"], state["held"]["y"]), state["held"]["month"]
