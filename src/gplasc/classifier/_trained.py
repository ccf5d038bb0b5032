"""A classifier whose encoder, or an adapter on a frozen one, is trained by a method, with a memory of images."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from gplasc.classifier._calibration import Calibration
from gplasc.classifier._gate import Label
from gplasc.classifier._model import Model, Options, Work
from gplasc.classifier._pipeline import Pipeline, add_up
from gplasc.classifier._rows import Rows
from gplasc.learning import Expected, ImageFormat, Learner
from gplasc.learning.checkpoints import digest
from gplasc.memory.per_task import equal_shares
from gplasc.methods import find_method
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
            device = options.device
            self._extractor = FeatureExtractor(encoder, config, self._images, views=views, device=device)
            learned = ImageFormat(self._extractor.feature_shape, (), (), features=True)
        expected = Expected(learned, num_classes)
        self.learner: Learner = build_learner(config, expected, encoder=encoder, device=options.device)
        x = torch.zeros(0, *learned.shape)
        self.rows = Rows.empty(x[:, :1] if self._extractor else x.byte())

    @property
    def kept(self) -> dict[str, int]:
        """How many rows of each kind are kept."""
        memory = len(self.learner.ctx.memory)
        return {"digests": len(self.rows), "rows of the memory": memory, "held-out images": len(self.rows.x)}

    # ---- learning ----------------------------------------------------------------------------------------------

    def _absorb(self, images: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
        rows = list(images)
        return torch.stack(rows) if rows else torch.zeros(0), torch.zeros(len(rows), 0, dtype=torch.uint8)

    def _learn(self, old: Self, added: Rows, work: Work) -> None:
        """Learn one more task, or the rest of it, in a learner of its own."""
        index, y, config = len(self.tasks), added.y, self.options.config
        # The heads are built for the classes of the first task.
        self._take_learner(self._copied() if index else type(self)(self.options, len(self.names)))
        share: float = self.options.given["held_out"]
        held = sample_rows(y, lambda n: min(round(share * n), n - 1), config.seed, f"held out/{index}")
        x = self._extractor.with_views(added.x) if self._extractor else added.x
        plain = x[:, :1] if self._extractor else x
        task = Task(
            index=index,
            classes=range(len(old.names), len(self.names)),
            class_names=tuple(map(str, self.names[len(old.names) :])),
            train=Samples(x[~held], y[~held]),
            test=Samples(plain[held], y[held]),
        )
        kept = replace(added, x=plain, fold=torch.zeros_like(y)).dropped(~held)
        self.rows = Rows.join([old.rows, kept])
        self.learner.callbacks = tuple(work.callbacks)
        frozen = self._extractor.encoder.state_dict() if self._extractor else {}  # decides the features
        work.resume(self.learner, digest({**frozen, "images": added.digest, "y": y}))
        if self.learner.position.task == index:
            self.learner.learn_task(task, evaluate=False)
        self._measure()
        order = self.rows.kept.nonzero().flatten()  # at most as many as the memory holds
        self.rows = self.rows.limited(equal_shares(config.buffer, len(self.names)), order)

    def _measure(self) -> None:
        """Calibrate on the held-out images, and keep their predictions."""
        kept, groups = self.rows.kept, self._groups(self.labels)
        scores, first = self._scores(self.rows.x), torch.tensor([outputs[0] for outputs in groups])
        y = (self.rows.y[kept, None] == first).int().argmax(1)
        measured = len(y) and len(first) > 1
        self.calibration = Calibration.of(scores, None, y, self.options.given["reject"]) if measured else None
        self.rows = self.rows.measured(kept, scores, first, self.calibration)

    def _copied(self) -> Trained:
        """Return a model whose learner is in the same state, so that this one stays as it is."""
        new = type(self)(self.options, self._first_classes)
        new.learner.load_state_dict(copy.deepcopy(self.learner.state_dict()))
        return new

    def _take_learner(self, other: Trained) -> None:
        self._extractor, self.learner = other._extractor, other.learner
        self._first_classes = other._first_classes

    def _groups(self, labels: list[Label]) -> list[list[int]]:
        """Return the outputs of each label."""
        return [[n for n, name in enumerate(self.names) if name == label] for label in labels]

    def _scores(self, x: Tensor) -> Tensor:
        """Return the scores (N, labels) of images or features, on the CPU."""
        ctx, groups = self.learner.ctx, self._groups(self.labels)
        parts = [torch.zeros(0, len(groups))]
        assert ctx.predictor is not None
        for rows in x.split(_EVALUATED) if len(x) else ():
            with torch.no_grad():
                scores = ctx.predictor(ctx.features(Samples(rows, torch.zeros(len(rows), dtype=torch.int64))))
            parts.append(add_up(scores, groups).cpu().float())
        return torch.cat(parts)

    # ---- edits: approximate ------------------------------------------------------------------------------------

    def _remove(self, label: Label, into: Label | None) -> None:
        """Remove the images and outputs of a class, or add its outputs to another one's; the network stays."""
        gone = torch.tensor(self._groups([label])[0])
        self.names = [into if name == label else name for name in self.names]
        mask = torch.isin(self.rows.y, gone)
        if into is None:
            self._take_learner(self._copied())
            memory = self.learner.ctx.memory
            if len(memory):
                memory.replace(memory.rows((~torch.isin(memory["y"], gone)).nonzero().flatten()))
            self.rows = self.rows.take(~mask).unmeasured()
        else:
            y = torch.where(mask, self.names.index(into), self.rows.y)
            self.rows = replace(self.rows, y=y).unmeasured()
        self._measure()

    # ---- prediction and files ----------------------------------------------------------------------------------

    def pipeline(self) -> Pipeline:
        """Return what predicts, with the classes in sorted order."""
        # Copies: evaluation and training switch the mode of the learner's modules.
        ctx = self.learner.ctx
        parts = [self._extractor.encoder] if self._extractor else []
        encoder = copy.deepcopy(nn.Sequential(*parts, ctx.network.encoder))
        predictor = copy.deepcopy(ctx.predictor)
        assert predictor is not None
        groups = self._groups(sorted(self.labels))
        made = Pipeline(self._images, encoder, predictor, groups=groups, calibration=self.calibration)
        return made.to(ctx.device).eval()

    def tensors(self) -> dict[str, Any]:
        """Return the learner's state."""
        return {"learner": self.learner.state_dict(), "classes": self._first_classes}

    def load_tensors(self, state: Mapping[str, Any]) -> None:
        """Take back what `tensors` returned."""
        new = type(self)(self.options, state["classes"])
        self._take_learner(new)
        self.learner.load_state_dict(state["learner"])
        if self.learner.ctx.num_classes != len(self.names):
            raise ValueError(f"{len(self.names)} classes for {self.learner.ctx.num_classes} outputs")
        if "held" in state:  # of a state that has held-out images apart from the rows
            y = torch.tensor([self.names.index(self.names[n]) for n in self.rows.y.tolist()])
            self.rows = replace(self.rows, y=y).holding(**state["held"])
        if not len(self.rows.x):  # the shape of what could be kept
            self.rows = replace(self.rows, x=new.rows.x)
