"""What a classifier knows, whatever its encoder: labels, months, digests of the images; how it takes one more month."""

from __future__ import annotations

import copy
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from gplasc.classifier._calibration import Calibration
from gplasc.classifier._gate import Figures, Label, TaskRecord
from gplasc.classifier._heads import HeadScore
from gplasc.classifier._intake import Intake
from gplasc.classifier._pipeline import Pipeline
from gplasc.classifier._rows import Rows
from gplasc.errors import UserError
from gplasc.learning import Callback, ImageFormat, Learner
from gplasc.models import Encoder
from gplasc.runs.encoder import configured_encoder, image_format
from gplasc.settings.types import Config


@dataclass(frozen=True)
class Options:
    """What a model is built from, apart from what it learned."""

    config: Config
    shape: tuple[int, ...]  # (C, size, size) of the images, or (D,) of features
    encoder: Encoder | None  # if it is not a built-in one
    encoder_name: str
    device: str
    given: Mapping[str, Any]  # arguments of the classifier
    code: Mapping[str, str]  # texts of the user's files that they name

    def built_encoder(self) -> tuple[Encoder, ImageFormat]:
        """Return the encoder, and the images that it takes."""
        channels, height, width = self.shape
        mean, std = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if channels == 3 else ((0.45,), (0.225,))
        encoder = self.encoder or configured_encoder(self.config, channels)
        return encoder, image_format((channels, height, width), mean, std, encoder)


@dataclass(frozen=True)
class Work:
    """What a call of `learn` brings along besides its images."""

    callbacks: Sequence[Callback] = ()
    resume: Callable[[Learner, str], None] = lambda learner, digest: None
    """Called before the first step, with the digest of the images; it may load a later state of the same task."""
    on_progress: Callable[[str, float], None] = lambda phase, done: None


class Model(ABC):
    """What was learned. `learned` and `edited` return a new model and leave this one as it is."""

    kind: ClassVar[Literal["frozen", "trained"]]
    measured: ClassVar[str]

    def __init__(self, options: Options) -> None:
        self.options = options
        self.names: list[Label | None] = []
        """The label of each number of a class; of a trained method also repeated ones, and None of forgotten ones."""
        self.tasks: list[TaskRecord] = []
        self.rows: Rows
        """One row for each learned image."""
        self.calibration: Calibration | None = None
        self.heads: list[HeadScore] = []
        self.head = ""

    @property
    def labels(self) -> list[Label]:
        """The labels that can be predicted, in the order in which they were learned."""
        return list(dict.fromkeys(name for name in self.names if name is not None))

    def learned(self, intake: Intake, work: Work) -> Self | None:
        """Return a model that has learned the new images too; None if none is new."""
        start = time.perf_counter()
        new, labels = copy.copy(self), self.labels
        known = {
            digest: name for digest, y in self.rows.known().items() if (name := self.names[y]) is not None
        }
        given: list[tuple[bytes, Label]] = []

        def images() -> Iterator[Tensor]:
            for number, item in enumerate(intake.items(self.options.shape, known, labels), 1):
                given.append((item.digest, item.label))
                yield item.x
                if intake.total:
                    work.on_progress("images", number / intake.total)

        x, thumbnails = new._absorb(images())
        if not given:
            return None
        brought = tuple(label for label in dict.fromkeys(label for _, label in given) if label not in labels)
        new.names = [*self.names, *brought]
        digests = torch.tensor([list(digest) for digest, _ in given], dtype=torch.uint8)
        y = torch.tensor([new.names.index(label) for _, label in given])
        added = Rows.new(digests, y, len(self.tasks), x, thumbnails)
        work.on_progress("learning", 0.0)
        new._learn(self, added, work)
        r, old_classes = new.rows, len(self.names)
        figures = Figures.of(r.y, r.month == len(self.tasks), r.before, r.after, old_classes)
        record = TaskRecord(
            new_classes=brought,
            images=len(given),
            figures=figures if figures.total.of else None,
            measured=self.measured,
            heads=tuple(new.heads),
            head=new.head,
            seconds=time.perf_counter() - start,
            digest=hashlib.sha256(repr(given).encode()).hexdigest(),
            notes=(*intake.notes, *new.notes()),
        )
        new.tasks = [*self.tasks, record]
        return new

    def edited(self, old: Label, name: Label | None, *, merge: bool = False) -> Self:
        """Return the model without a class (None), with another label for it, or with it as part of another class."""
        if missing := [label for label in (old, name) if label not in self.names and (label == old or merge)]:
            raise UserError(f"there is no class {missing[0]!r}; `gplasc info STATE` lists them")
        if name is not None and not merge and (name in self.names or type(name) is not type(old)):
            raise UserError(f"{name!r} is a class, or no label like {old!r}; classes are joined by merge")
        if name == old or (len(self.labels) == 1 and name is None):
            raise UserError(f"{old!r} is the same class" if name else f"{old!r} is the only class")
        new = copy.copy(self)
        new.tasks = [task.relabeled(old, name) for task in self.tasks]
        if name is None or merge:
            new._remove(old, name)
        else:
            new.names = [name if label == old else label for label in self.names]
        return new

    def notes(self) -> list[str]:
        """Return what is approximate."""
        return []

    @property
    @abstractmethod
    def kept(self) -> dict[str, int]:
        """How many rows of each kind are kept."""

    @abstractmethod
    def _absorb(self, images: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
        """Consume images; return what is learned of them, and thumbnails."""

    @abstractmethod
    def _learn(self, old: Self, added: Rows, work: Work) -> None:
        """Learn rows whose labels are in `names` already; this is a copy of `old`."""

    @abstractmethod
    def _remove(self, label: Label, into: Label | None) -> None:
        """Remove a class from this copy: forget it, or make it part of another one."""

    @abstractmethod
    def pipeline(self) -> Pipeline:
        """Return what predicts, with the classes in sorted order."""

    @abstractmethod
    def tensors(self) -> dict[str, Any]:
        """Return what was learned, apart from `rows` and `results`."""

    @abstractmethod
    def load_tensors(self, state: Mapping[str, Any]) -> None:
        """Take back what `tensors` returned."""
