"""A classifier on a frozen encoder: features are kept, and the head is fitted again, exactly, to all of them."""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from gplasc.classifier._calibration import Calibration, class_means
from gplasc.classifier._gate import Label
from gplasc.classifier._heads import (
    HEADS,
    compare_heads,
    fit_head,
    linear_head,
    load_sums,
    measurable,
    new_sums,
)
from gplasc.classifier._model import Model, Options, Work
from gplasc.classifier._pipeline import Pipeline
from gplasc.classifier._rows import Rows
from gplasc.errors import UserError
from gplasc.learning import ImageFormat
from gplasc.learning.checkpoints import digest
from gplasc.methods.base import FeatureStatistics

_BATCH = 64
_THUMBNAIL = 64


class Frozen(Model):
    """Features of all images (or of some, or their sums), and a linear head."""

    kind = "frozen"
    measured = "cross-validated"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._encoder: nn.Module = nn.Identity()
        self._images: ImageFormat | None = None
        dim = options.shape[0]
        if len(options.shape) == 3:
            encoder, self._images = options.built_encoder()
            encoder.freeze()
            self._encoder, dim = encoder.to(options.device), encoder.feature_dim
        self.rows = Rows.empty(torch.zeros(0, dim).half())
        self._most: int | None = options.given["keep_features"]
        self._sums: FeatureStatistics[Any] | None = None  # in place of features
        self._linear = linear_head("", torch.zeros(0, dim), torch.zeros(0))
        self._means = torch.zeros(0, dim)

    @property
    def kept(self) -> dict[str, int]:
        """How many rows of each kind are kept."""
        rows = self.rows
        thumbnails = len(rows.thumbnails) if rows.thumbnails.shape[1] else 0
        return {"digests": len(rows), "features": len(rows.x), "thumbnails": thumbnails}

    def notes(self) -> list[str]:
        """Say what is approximate."""
        if self._most == 0:
            return [
                f"no features are kept: {self.head} from sums, without cross-validation, limits and unknown"
            ]
        fitted, unmeasured = len(self.rows.x), int((self.rows.kept & (self.rows.after < 0)).sum())
        few = f"the head is fitted to {fitted} of {len(self.rows)} images: --keep-features"
        alone = f"{unmeasured} images are not measured: their class has one image, or all are nearly the same"
        return [few] * (fitted < len(self.rows)) + [alone] * (unmeasured > 0)

    # ---- learning ----------------------------------------------------------------------------------------------

    def _absorb(self, images: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
        features, thumbnails = [self.rows.x[:0]], [torch.zeros(0, dtype=torch.uint8)]
        pipeline = Pipeline(self._images, self._encoder, nn.Identity()).to(self.options.device).eval()
        while batch := list(itertools.islice(images, _BATCH)):
            if self._images and self.options.given["thumbnails"] and self._most != 0:
                thumbnails += map(_thumbnail, batch)
            with torch.inference_mode():
                part = pipeline.features(torch.stack(batch).to(self.options.device)).half().cpu()
            if not bool(torch.isfinite(part).all()):
                raise UserError("the encoder's features are not finite or above 65504; scale its output")
            features.append(part.clone())
        x = torch.cat(features)
        return x, pad_sequence(thumbnails, batch_first=True)[1:] if thumbnails[1:] else x[:, :0].byte()

    def _learn(self, old: Self, added: Rows, work: Work) -> None:
        if self._most == 0:
            self.head = "ncm" if self.options.given["method"] == "ncm" else "slda"
            sums = copy.copy(self._sums) or new_sums(self.head)
            sums.add(added.x.float(), added.y, len(self.names))
            self._fit_to(sums)
            self.rows = Rows.join([self.rows, added.dropped(added.kept)])
            return
        self.rows = Rows.join([old.rows, added]).with_folds()
        self._refit()

    def _refit(self) -> None:
        """Choose, fit and calibrate the head on the rows, with cross-validated predictions."""
        classes, given = len(self.names), self.options.given
        if self._most is not None:
            self.rows = self.rows.limited(torch.full((classes,), self._most))
        kept = self.rows.kept
        x, y, fold = self.rows.x.float(), self.rows.y[kept], self.rows.fold[kept]
        names = HEADS if given["method"] == "auto" else (given["method"],)
        self.heads, self.head, scores = compare_heads(names, x, y, fold, classes)
        self._linear = fit_head(self.head, x, y, classes)
        self._means, cosines = class_means(x, y, classes)
        valid, self.calibration = measurable(y, fold), None
        if classes > 1 and bool(valid.any()):
            self.calibration = Calibration.of(scores[valid], cosines[valid], y[valid], given["reject"])
        kept[kept.clone()] = valid
        self.rows = self.rows.measured(kept, scores[valid], torch.arange(classes), self.calibration)

    def _fit_to(self, sums: FeatureStatistics[Any]) -> None:
        self._sums, self._linear = sums, linear_head(self.head, *sums.weights())

    # ---- edits: exact ------------------------------------------------------------------------------------------

    def _remove(self, label: Label, into: Label | None) -> None:
        number = self.names.index(label)
        if into is None:
            self.rows = self.rows.without(number)
        else:
            self.rows = self.rows.merged(self.names.index(into), number)
        self.names = [name for name in self.names if name != label]
        if self._sums is None:
            self._refit()
        elif into is not None or self.head == "slda":
            raise UserError(
                f"without features (--keep-features 0), {self.head} cannot forget a class or merge classes exactly; "
                "keep features, or forget with --method ncm"
            )
        else:  # features of unit length: the sum of their squares is their number
            counts, first, squares = self._sums.state_dict().values()
            rest = torch.arange(len(counts)) != number
            sums = load_sums(self.head, counts[rest], first[rest], squares - counts[number])
            self._fit_to(sums)

    # ---- prediction and files ----------------------------------------------------------------------------------

    def pipeline(self) -> Pipeline:
        """Return what predicts, with the classes in sorted order."""
        order = [self.names.index(label) for label in sorted(self.labels)]
        head = linear_head(self.head, self._linear.weight[order], self._linear.bias[order])
        means = self._means[order] if self.calibration else None
        made = Pipeline(self._images, self._encoder, head, calibration=self.calibration, means=means)
        return made.to(self.options.device).eval()

    def tensors(self) -> dict[str, Any]:
        """Return head and class means, or sums."""
        sums = self._sums.state_dict().values() if self._sums else ()
        head = {"weight": self._linear.weight, "bias": self._linear.bias, "means": self._means}
        encoder = digest(self._encoder.state_dict())
        return {**head, **dict(zip(("counts", "first", "second"), sums, strict=False)), "encoder": encoder}

    def load_tensors(self, state: Mapping[str, Any]) -> None:
        """Take them back; `head` is known, and the encoder has its weights."""
        if state["encoder"] != digest(self._encoder.state_dict()):
            raise UserError("the encoder's weights are not those of the state; install the package it had")
        self._linear, self._means = linear_head(self.head, state["weight"], state["bias"]), state["means"]
        if "counts" in state:
            self._sums = load_sums(self.head, state["counts"], state["first"], state["second"])


def _thumbnail(x: Tensor) -> Tensor:
    """Return the bytes of an image (C, H, W) uint8 as a small JPEG file."""
    from PIL import Image

    content = io.BytesIO()
    pixels = x.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
    Image.fromarray(pixels).resize((_THUMBNAIL, _THUMBNAIL)).save(content, "JPEG", quality=75)
    return torch.frombuffer(bytearray(content.getvalue()), dtype=torch.uint8)
