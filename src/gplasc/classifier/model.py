"""What a classifier knows: class names, a learner, held-out images, and a record of every task."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gplasc._io.files import write_atomic
from gplasc._io.text import duration, printable
from gplasc.classifier.intake import Label, LabeledImages
from gplasc.classifier.pipeline import Pipeline
from gplasc.errors import UserError
from gplasc.learning import Callback, Expected, ImageFormat, Learner
from gplasc.memory.per_task import equal_shares, surplus
from gplasc.methods import find_method
from gplasc.models import Encoder
from gplasc.runs.build import build_learner
from gplasc.runs.encoder import configured_encoder, image_format
from gplasc.runs.features import FeatureExtractor
from gplasc.settings.types import Config
from gplasc.streams import Samples, Task
from gplasc.streams.dataset import sample_rows

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # photographs of any kind: ImageNet's
_GRAY = (0.45, 0.225)
_PIECE = 512
_EVALUATED = 256


@dataclass(frozen=True)
class TaskRecord:
    """What one call of `learn` brought; accuracies are percentages on held-out images, None if there were none."""

    new_classes: tuple[Label, ...]
    images: int
    held_out: int
    accuracy: float | None
    """On the images held out from this task, among all classes."""
    known: int
    """How many held-out images of earlier tasks were there."""
    known_before: float | None
    """Accuracy on those before the task."""
    known_after: float | None
    """Accuracy on those after the task."""
    seconds: float
    digest: str
    """Of images and labels."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        new = ", ".join(map(str, self.new_classes[:8])) + (", ..." if len(self.new_classes) > 8 else "")
        lines = [
            f"{self.images} images learned in {duration(self.seconds)}; new classes: {new or 'none'}",
            f"  accuracy on {self.held_out:>5} held-out images of this task:      {_percent(self.accuracy)}",
        ]
        if self.known:
            lines.append(
                f"  accuracy on {self.known:>5} held-out images of earlier tasks:   {_percent(self.known_after)}"
                f"  (before: {_percent(self.known_before)})"
            )
        return printable("\n".join([*lines, *(f"  {note}" for note in self.notes)]))


class ClassifierModel:
    """The learned part of a classifier.

    Args:
        config: The complete settings.
        shape: (C, size, size) of the images that are learned.
        num_classes: The number of classes of the first task.
        encoder: The encoder if it was passed as an object.
        device: Where to compute.
        held_out: The share of the images that is not learned but used for the accuracies.
    """

    def __init__(
        self,
        config: Config,
        shape: tuple[int, int, int],
        num_classes: int,
        *,
        encoder: Encoder | None,
        device: str,
        held_out: float,
    ) -> None:
        self.config = config
        self.shape = shape
        self.classes: list[Label] = []
        self.records: list[TaskRecord] = []
        self._held_out_share = held_out
        self._held = Samples(torch.zeros(0), torch.zeros(0, dtype=torch.int64))
        mean, std = (_MEAN, _STD) if shape[0] == 3 else ((_GRAY[0],), (_GRAY[1],))
        encoder = encoder or configured_encoder(config, shape[0])
        self._extractor: FeatureExtractor | None = None
        self.images = image_format(shape, mean, std, encoder)
        learned = self.images
        if config.model.encoder_lr == 0:
            views = config.model.feature_views if find_method(config.method).trains else 0
            self._extractor = FeatureExtractor(encoder, config, self.images, views=views, device=device)
            learned = ImageFormat(self._extractor.feature_shape, (), (), features=True)
        self.learner = build_learner(config, Expected(learned, num_classes), encoder=encoder, device=device)

    @property
    def num_held_out(self) -> int:
        """How many held-out images are kept."""
        return len(self._held)

    @property
    def frozen_encoder(self) -> Encoder | None:
        """The encoder if it is frozen; its weights are not part of the learner's."""
        return self._extractor.encoder if self._extractor else None

    def learn(
        self,
        data: LabeledImages,
        *,
        callbacks: Sequence[Callback] = (),
        resume: Callable[[Learner], None] = lambda learner: None,
        cache: Path | None = None,
        on_progress: Callable[[str, float], None] = lambda phase, done: None,
    ) -> TaskRecord:
        """Learn one more task, or the rest of it.

        If it fails, the model must not be used any more: it may have learned a part.

        Args:
            data: The images.
            callbacks: Called while the task is learned.
            resume: Called before the first step; it may load a later state of the same task into the learner.
            cache: A folder where features are kept while the task is learned.
            on_progress: Called with the name of a phase and the share that is done.
        """
        start = time.perf_counter()
        index = len(self.records)
        before = self._accuracy(self._held)
        new = tuple(label for label in dict.fromkeys(data.labels) if label not in set(self.classes))
        if not self.classes and not new:
            raise UserError("there are no classes; give images of at least one")
        names = [*self.classes, *new]
        number = {label: position for position, label in enumerate(names)}
        y = torch.tensor([number[label] for label in data.labels])
        # A class of one or two images gives none.
        held = sample_rows(y, self._count_held_out, self.config.seed, f"held out/{index}")
        train, test = (~held).nonzero().flatten(), held.nonzero().flatten()
        x = self._learnable(data.x, cache, on_progress)
        plain = x[:, :1] if self._extractor else x
        task = Task(
            index=index,
            classes=range(len(self.classes), len(names)),
            class_names=tuple(map(str, new)),
            train=Samples(x[train], y[train]),
            test=Samples(plain[test], y[test]),
        )
        self.learner.callbacks = tuple(callbacks)
        resume(self.learner)
        if self.learner.position.task == index:
            self.learner.learn_task(task, evaluate=False)
        self.classes = names
        record = TaskRecord(
            new_classes=new,
            images=len(train),
            held_out=len(test),
            accuracy=self._accuracy(task.test),
            known=len(self._held),
            known_before=before,
            known_after=self._accuracy(self._held),
            seconds=time.perf_counter() - start,
            digest=data.digest,
            notes=data.notes,
        )
        self.records.append(record)
        self._keep_held_out(task.test)
        return record

    def pipeline(self) -> Pipeline:
        """Return what maps images to probabilities, in evaluation mode."""
        ctx = self.learner.ctx
        assert ctx.predictor is not None
        encoder: nn.Module = ctx.network.encoder
        if self._extractor:
            encoder = nn.Sequential(self._extractor.encoder, encoder)
        return Pipeline(self.images, encoder, ctx.predictor).to(ctx.device).eval()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that was learned: tensors and plain containers."""
        return {
            "learner": self.learner.state_dict(),
            "held": {"x": self._held.x, "y": self._held.y},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` returned."""
        self.learner.load_state_dict(state["learner"])
        self._held = Samples(state["held"]["x"], state["held"]["y"])

    # ---- held-out images ---------------------------------------------------------------------------------------

    def _count_held_out(self, images: int) -> int:
        return min(round(self._held_out_share * images), images - 1)

    def _accuracy(self, samples: Samples) -> float | None:
        """Return the accuracy in percent; None without samples."""
        ctx = self.learner.ctx
        if not len(samples) or ctx.predictor is None:
            return None
        right = 0
        for rows in torch.arange(len(samples)).split(_EVALUATED):
            part = samples.take(rows)
            with torch.no_grad():
                predicted = ctx.predictor(ctx.features(part)).argmax(1).cpu()
            right += int((predicted == part.y).sum())
        return 100.0 * right / len(samples)

    def _keep_held_out(self, new: Samples) -> None:
        """Add held-out images, and drop some of the classes that have most: at most as many as the memory holds."""
        if not len(self._held):
            joined = new
        else:
            joined = Samples(torch.cat([self._held.x, new.x]), torch.cat([self._held.y, new.y]))
        shares = equal_shares(self.config.buffer, len(self.classes))
        kept = torch.ones(len(joined), dtype=torch.bool)
        if len(joined):
            kept[surplus(joined.y, shares)] = False
        self._held = joined.take(kept)

    # ---- features ----------------------------------------------------------------------------------------------

    def _learnable(self, x: Tensor, cache: Path | None, on_progress: Callable[[str, float], None]) -> Tensor:
        """Return images as they are, or their features: those in the cache are not computed again."""
        if self._extractor is None:
            return x
        from safetensors import SafetensorError
        from safetensors.torch import load, save

        pieces: list[Tensor] = []
        done = 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            on_progress("features", done / len(x))

        for number, piece in enumerate(x.split(_PIECE)):
            path = cache / f"features-{number:06d}.safetensors" if cache else None
            if path is not None and path.exists():
                with suppress(OSError, SafetensorError, KeyError):  # a damaged file is computed again
                    pieces.append(load(path.read_bytes())["x"])
                    advance(len(piece))
                    continue
            pieces.append(self._extractor.with_views(piece, advance))
            if path is not None:
                write_atomic(path, save({"x": pieces[-1]}))
        return torch.cat(pieces)


def _percent(value: float | None) -> str:
    return "    -" if value is None else f"{value:5.1f} %"
