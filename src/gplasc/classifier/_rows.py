"""What is kept of the learned images: features, class, month, digest and fold of each, and thumbnails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from gplasc.classifier._calibration import Calibration
from gplasc.classifier._heads import FOLDS
from gplasc.memory.per_task import surplus

_TWINS = 0.95  # cosine of two images that are nearly the same
PREDICTIONS = ("before", "after", "confidence")
_COLUMNS = ("digest", "y", "month", "fold", *PREDICTIONS)
_DROPPED, NEW = -1, -2  # folds of images whose features are not kept, and whose fold is not decided yet


@dataclass(frozen=True)
class Rows:
    """One row for each learned image, in the order of learning."""

    digest: Tensor  # (N, 16) uint8
    y: Tensor  # (N,) int64, number of the class
    month: Tensor  # (N,) int64
    fold: Tensor  # (N,) int64; -1: nothing is kept
    x: Tensor  # (K, ...) of the rows that are kept: features as float16, or held-out images
    thumbnails: Tensor  # (K, width) uint8: JPEG files, padded with zeros; width 0: none
    before: Tensor  # (N,) int64: class predicted by the last state but one
    after: Tensor  # (N,) int64: class predicted by a head that was not fitted to the row; -1: not measured
    confidence: Tensor  # (N,)

    @classmethod
    def new(cls, digest: Tensor, y: Tensor, month: int, x: Tensor, thumbnails: Tensor) -> Rows:
        """Return rows of a month, (N, ...) each, that are not measured."""
        none = torch.full_like(y, -1)
        fold, confidence = torch.full_like(y, NEW), torch.zeros(len(y))
        return cls(digest, y, torch.full_like(y, month), fold, x, thumbnails, none, none, confidence)

    @classmethod
    def empty(cls, x: Tensor) -> Rows:
        """Return no rows, given what is kept of none, (0, ...)."""
        byte = torch.zeros(0, 16, dtype=torch.uint8)
        return cls.new(byte, torch.zeros(0, dtype=torch.int64), 0, x, byte[:, :0])

    @classmethod
    def join(cls, parts: Iterable[Rows]) -> Rows:
        """Return the rows of all parts."""
        parts = list(parts)
        columns = {name: torch.cat([getattr(part, name) for part in parts]) for name in (*_COLUMNS, "x")}
        width = max(part.thumbnails.shape[1] for part in parts)
        pictures = [pad(part.thumbnails, (0, width - part.thumbnails.shape[1])) for part in parts]
        return cls(**columns, thumbnails=torch.cat(pictures))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def kept(self) -> Tensor:
        """Which rows have features, (N,)."""
        return self.fold != _DROPPED

    def take(self, mask: Tensor) -> Rows:
        """Return some rows, by a mask (N,)."""
        columns = {name: getattr(self, name)[mask] for name in _COLUMNS}
        inner = mask[self.kept]
        return Rows(**columns, x=self.x[inner], thumbnails=self.thumbnails[inner])

    def months(self) -> list[dict[str, Tensor]]:
        """Return the columns of each month's rows, apart from predictions: what later months do not change."""
        months = []
        for month in self.month.unique().tolist():
            part = self.take(self.month == month)
            used = part.thumbnails.any(0).nonzero().flatten().tolist()  # without the padding of other months
            part = replace(part, thumbnails=part.thumbnails[:, : max(used, default=-1) + 1])
            columns = {name: column.contiguous() for name, column in vars(part).items()}
            months.append({name: columns[name] for name in columns if name not in PREDICTIONS})
        return months

    def check(self, classes: int) -> None:
        """Check that the columns of rows that were read fit each other and the number of classes."""
        same = len({len(getattr(self, name)) for name in _COLUMNS}) == 1
        if not same or not int(self.kept.sum()) == len(self.x) == len(self.thumbnails):
            raise ValueError("the rows do not fit each other")
        if self.digest.shape[1:] != (16,) or not bool(((self.y >= 0) & (self.y < classes)).all()):
            raise ValueError("the rows do not fit the classes")

    def measured(
        self, mask: Tensor, scores: Tensor, classes: Tensor, calibration: Calibration | None
    ) -> Rows:
        """Return the rows with predictions, from scores (K, C) of the classes (C,), of those in a mask (N,)."""
        after, confidence = torch.full_like(self.y, -1), torch.zeros(len(self))
        temperature = calibration.temperature if calibration else 1.0
        after[mask] = classes[scores.argmax(1)]
        confidence[mask] = (scores / temperature).softmax(1).amax(1)
        return replace(self, before=self.after, after=after, confidence=confidence)

    def known(self) -> dict[bytes, int]:
        """Return the class of each image by its digest."""
        return dict(zip(map(bytes, self.digest.numpy()), self.y.tolist(), strict=True))

    def without(self, label: int) -> Rows:
        """Return the rows of the other classes, which move up."""
        rest = self.take(self.y != label)
        return replace(rest, y=rest.y - (rest.y > label).long()).unmeasured()

    def merged(self, one: int, other: int) -> Rows:
        """Return the rows with the second class as part of the first; its number is free then, and others move up.

        Folds are decided as if the images had always been of one class.
        """
        y = torch.where(self.y == other, one, self.y)
        fold = torch.where(self.kept & (y == one), NEW, self.fold)
        return replace(self, y=y - (y > other).long(), fold=fold).with_folds().unmeasured()

    def holding(self, x: Tensor, y: Tensor, month: Tensor) -> Rows:
        """Return the rows with what is kept of some that are known by class and month."""
        fold, rows = self.fold.clone(), []
        for number, last in zip(y.tolist(), month.tolist(), strict=True):
            rows.append(int(((self.y == number) & (self.month == last) & (fold < 0)).nonzero()[0]))
            fold[rows[-1]] = 0
        x = x[torch.tensor(rows, dtype=torch.int64).argsort()]
        return replace(self, fold=fold, x=x, thumbnails=torch.zeros(len(x), 0, dtype=torch.uint8))

    def unmeasured(self) -> Rows:
        """Return the rows without predictions, whose numbers of classes are others now."""
        return replace(self, after=torch.full_like(self.y, -1))

    def with_folds(self) -> Rows:
        """Return the rows with folds that are balanced within each class, decided month by month where they are new."""
        fold, undecided = self.fold.clone(), self.fold == NEW
        for label in self.y[undecided].unique().tolist():
            mask = self.kept & (self.y == label)
            x, digest, month = self.x[mask[self.kept]], self.digest[mask], self.month[mask]
            inner = self.fold[mask & ~undecided]  # of earlier months: they come first
            for last in self.month[mask & undecided].unique().tolist():
                inner = assign_folds(x[month <= last], digest[month <= last], inner)
            fold[mask] = inner
        return replace(self, fold=fold)

    def dropped(self, drop: Tensor) -> Rows:
        """Return the rows without the features and thumbnails of those of a mask (N,)."""
        inner, fold = ~drop[self.kept], torch.where(drop, _DROPPED, self.fold)
        return replace(self, fold=fold, x=self.x[inner], thumbnails=self.thumbnails[inner])

    def limited(self, shares: Tensor, order: Tensor | None = None) -> Rows:
        """Drop what is kept of all but so many images of each class: the first in an order, or by their digests."""
        if order is None:
            order = torch.tensor(sorted(range(len(self)), key=lambda row: bytes(self.digest[row].numpy())))
        drop = torch.zeros(len(self), dtype=torch.bool)
        drop[order[surplus(self.y[order], shares)]] = True
        return self.dropped(drop)


def assign_folds(x: Tensor, digest: Tensor, known: Tensor) -> Tensor:
    """Return the fold of each image of one class, (N,): balanced, and decided by the digests; some are known.

    A near-duplicate joins its twin's fold, unless half of the class would be there.
    """
    keys = [bytes(row) for row in digest.numpy()]
    order = [*range(len(known)), *sorted(range(len(known), len(x)), key=keys.__getitem__)]
    unit = normalize(x[order].float(), dim=1)
    fold = known.tolist()
    for place in range(len(known), len(x)):
        counts, start = [fold.count(k) for k in range(FOLDS)], keys[order[place]][0]
        number = min(range(FOLDS), key=lambda k: (counts[k], (k + start) % FOLDS))
        if place:
            cosine, twin = (unit[:place] @ unit[place]).max(0)
            if float(cosine) > _TWINS and 2 * counts[fold[int(twin)]] < len(x) - 1:
                number = fold[int(twin)]
        fold.append(number)
    return torch.tensor(fold)[torch.tensor(order).argsort()]
