"""A classifier on a frozen encoder: features are kept, and the head is fitted again, exactly, to all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from gplasc.classifier._calibration import Calibration, class_means, cosines_to_means
from gplasc.classifier._gate import Figures, Label
from gplasc.classifier._heads import HEADS, Head, Sums, compare_heads, fit_head, measurable
from gplasc.classifier._intake import thumbnail
from gplasc.classifier._model import Model, Options, Results, Work
from gplasc.classifier._pipeline import Pipeline
from gplasc.classifier._rows import Rows, with_folds
from gplasc.errors import UserError
from gplasc.learning import ImageFormat
from gplasc.learning.checkpoints import digest

_BATCH = 64


class Frozen(Model):
    """Features of all images (or of some, or their sums), and a linear head."""

    kind = "frozen"
    measured = "cross-validated"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.encoder: nn.Module = nn.Identity()
        self._images: ImageFormat | None = None
        dim = options.shape[0]
        if len(options.shape) == 3:
            encoder, self._images = options.built_encoder()
            encoder.freeze()
            self.encoder, dim = encoder.to(options.device), encoder.feature_dim
        self.rows = Rows.empty(dim)
        self.sums: Sums | None = None
        self.linear = Head("ncm", torch.zeros(0, dim), torch.zeros(0))
        self.means = torch.zeros(0, dim)
        self._most: int | None = options.given["keep_features"]

    @property
    def frozen_encoder(self) -> nn.Module | None:
        """The encoder; none for features."""
        return self.encoder if self._images else None

    # ---- learning ----------------------------------------------------------------------------------------------

    def _absorb(self, images: Iterator[Tensor]) -> tuple[Tensor, list[bytes]]:
        pieces, thumbnails = [self.linear.weight[:0].half()], list[bytes]()
        extractor = Pipeline(self._images, self.encoder, nn.Identity()).to(self.options.device).eval()
        while batch := list(itertools.islice(images, _BATCH)):
            if self._images and self.options.given["thumbnails"] and self._most != 0:
                thumbnails += [thumbnail(image) for image in batch]
            with torch.inference_mode():
                features = extractor.features(torch.stack(batch).to(self.options.device)).float().cpu()
            if not bool(torch.isfinite(features.half()).all()):
                raise UserError(
                    "the encoder returned features that are not finite or above 65504; scale its output"
                )
            pieces.append(features.half().clone())
        return torch.cat(pieces), thumbnails

    def _learn(self, old: Self, added: Rows, work: Work) -> Figures | None:
        if self._most == 0:
            self._add(added)
            return None
        joined = Rows.join([old.rows, with_folds(old.rows, added)])
        self.rows = joined if self._most is None else joined.limited(self._most)
        before = torch.full((len(joined),), -1)
        if len(old.results.after):
            before[: len(old.rows)][old.rows.kept] = old.results.after
        before = before[self.rows.kept]
        scored = self._refit()
        self.results = replace(scored, before=before)
        new = scored.month == len(self.tasks)
        return Figures.of(scored.y, new, before, scored.after, len(old.names))

    def _refit(self) -> Results:
        """Choose, fit and calibrate the head on the rows; return the cross-validated predictions."""
        kept, classes, method = self.rows.kept, len(self.names), self.options.given["method"]
        x, y, fold = self.rows.x.float(), self.rows.y[kept], self.rows.fold[kept]
        names = list(HEADS) if method == "auto" else [method]
        self.heads, self.head, scores = compare_heads(names, x, y, fold, classes)
        self.linear, self.means = fit_head(self.head, x, y, classes), class_means(x, y, classes)
        valid = measurable(y, fold)
        self.calibration = None
        if classes > 1 and bool(valid.any()):
            cosines = cosines_to_means(x, y, classes)
            reject = self.options.given["reject"]
            self.calibration = Calibration.of(scores[valid], cosines[valid], y[valid], reject)
        return Results.of(y, self.rows.month[kept], scores, valid, self.calibration)

    def notes(self) -> list[str]:
        """Say what is approximate."""
        if self._most == 0:
            return [
                f"no features are kept: {self.head} from sums, without cross-validation, limits and unknown"
            ]
        notes = []
        if len(self.rows.x) < len(self.rows):
            notes.append(
                f"the head is fitted to {len(self.rows.x)} of {len(self.rows)} images: --keep-features"
            )
        if count := int((self.results.after < 0).sum()):
            notes.append(
                f"{count} images are not measured: their class has one image, or all are nearly the same"
            )
        return notes

    def _add(self, added: Rows) -> None:
        """Add new features to the sums, of ncm or slda, and forget them."""
        self.head = "ncm" if self.options.given["method"] == "ncm" else "slda"
        sums = Sums.of(self.head, added.x.float(), added.y, len(self.names))
        self.sums = sums.plus(self.sums) if self.sums else sums
        self.linear = self.sums.head(self.head)
        self.rows = Rows.join([self.rows, added.dropped(self.rows.x)])

    # ---- edits: exact ------------------------------------------------------------------------------------------

    def _forget(self, label: Label) -> None:
        number = self.names.index(label)
        self.rows = self.rows.without(number)
        self.names = [name for name in self.names if name != label]
        if self.sums is None:
            self.results = self._refit()
        elif self.head == "slda":
            raise UserError(
                "slda without features (--keep-features 0) cannot forget a class: its covariance has the images of "
                "all; keep features, or use --method ncm"
            )
        else:
            self.sums = self.sums.without(number)
            self.linear = self.sums.head(self.head)

    def _merge(self, one: Label, other: Label) -> None:
        if self.sums is not None:
            raise UserError("classes without features (--keep-features 0) cannot be merged")
        self.rows = self.rows.merged(self.names.index(one), self.names.index(other))
        self.names = [name for name in self.names if name != other]
        if self._most is not None:
            self.rows = self.rows.limited(self._most)
        self.results = self._refit()

    # ---- prediction and files ----------------------------------------------------------------------------------

    def pipeline(self) -> Pipeline:
        """Return what predicts, with the classes in sorted order."""
        order = [self.names.index(label) for label in self.sorted_labels]
        head = Head(self.head, self.linear.weight[order], self.linear.bias[order])
        means = self.means[order] if self.calibration else None
        made = Pipeline(self._images, self.encoder, head, calibration=self.calibration, means=means)
        return made.to(self.options.device).eval()

    def tensors(self) -> dict[str, Any]:
        """Return head and class means, or sums."""
        head = {"weight": self.linear.weight, "bias": self.linear.bias, "means": self.means}
        return {
            **head,
            **(dict(self.sums) if self.sums else {}),
            "encoder": digest(self.encoder.state_dict()),
        }

    def load_tensors(self, state: Mapping[str, Any]) -> None:
        """Take them back; `head` is known, and the encoder has its weights."""
        if state["encoder"] != digest(self.encoder.state_dict()):
            raise UserError(
                "the encoder's weights are not those of the state; install the package it was learned with"
            )
        self.linear, self.means = Head(self.head, state["weight"], state["bias"]), state["means"]
        if "counts" in state:
            self.sums = Sums(**{name: state[name] for name in Sums.model_fields})
