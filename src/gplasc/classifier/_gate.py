"""What an update brought, with counts and intervals, and the limits that refuse it."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field
from torch import Tensor

from gplasc._io.text import duration, printable
from gplasc.classifier._calibration import Plain
from gplasc.classifier._heads import HeadScore
from gplasc.errors import UserError

Label = str | int


class Share(Plain):
    """So many of so many images."""

    count: int
    of: int

    @classmethod
    def where(cls, right: Tensor, mask: Tensor) -> Share:
        """Count the rows of a mask that are right."""
        return cls(count=int((right & mask).sum()), of=int(mask.sum()))

    @property
    def percent(self) -> float:
        """100 times the share; 0 of no images."""
        return 100.0 * self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of Wilson, in percent."""
        if not self.of:
            return 0.0, 100.0
        z, n, p = 1.959964, self.of, self.count / self.of
        center, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        scale = 100 / (1 + z * z / n)
        return scale * (center - half), scale * (center + half)

    def __str__(self) -> str:
        low, high = self.interval
        counts = f"({self.count} of {self.of}; {low:.1f} to {high:.1f})"
        return f"{self.percent:5.1f} %  {counts}" if self.of else "    -"

    def facts(self) -> dict[str, Any]:
        """Return counts, percent and interval for programs."""
        interval = [round(bound, 2) for bound in self.interval]
        return {
            **self.model_dump(),
            "percent": round(self.percent, 2),
            "interval": interval,
            "text": str(self).strip(),
        }


class Figures(Plain):
    """The figures of an update, on images that the head that is measured was not fitted to."""

    accuracy: Share = Field(description="accuracy of this month's images, among all classes")
    before: Share = Field(description="accuracy of earlier images before")
    after: Share = Field(description="the same images now")
    to_new: Share = Field(description="earlier images that flipped from right to a new class")
    damage: Share = Field(description="damage: earlier images that flipped from right to an earlier class")
    total: Share = Field(description="accuracy of all images")

    @classmethod
    def of(cls, y: Tensor, new: Tensor, before: Tensor, after: Tensor, first_new: int) -> Figures:
        """Compare predictions before and after, (N,) each; -1: none. `new` tells the rows of this month."""
        valid = after >= 0
        old = valid & ~new & (before >= 0)
        flipped = (before == y) & (after != y)
        return cls(
            accuracy=Share.where(after == y, valid & new),
            before=Share.where(before == y, old),
            after=Share.where(after == y, old),
            to_new=Share.where(flipped & (after >= first_new), old),
            damage=Share.where(flipped & (after < first_new), old),
            total=Share.where(after == y, valid),
        )

    def texts(self) -> list[tuple[str, Share]]:
        """Return what was measured, in words, with its share."""
        fields = {name: field.description or "" for name, field in type(self).model_fields.items()}
        return [(text, share) for name, text in fields.items() if (share := getattr(self, name)).of]


class TaskRecord(Plain):
    """What one call of `learn` brought."""

    new_classes: tuple[Label, ...]
    images: int
    """Learned images of this call."""
    figures: Figures | None
    """Accuracies and flips; None if nothing can be measured."""
    measured: str
    """How: cross-validated, or on held-out images."""
    heads: tuple[HeadScore, ...] = ()
    head: str = ""
    """The head that was chosen."""
    seconds: float
    digest: str
    """Of images and labels."""
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Why the update did not replace the state; empty if it did."""

    def relabeled(self, old: Label, name: Label | None) -> TaskRecord:
        """Return the record with another label for a class; None removes it."""
        names = (name if label == old else label for label in self.new_classes)
        kept = tuple(dict.fromkeys(label for label in names if label is not None))
        return self.model_copy(update={"new_classes": kept})

    def facts(self) -> dict[str, Any]:
        """Return the record for programs."""
        names = Figures.model_fields if self.figures else ()
        figures = {name: getattr(self.figures, name).facts() for name in names}
        return {**self.model_dump(mode="json"), "figures": figures}

    def __str__(self) -> str:
        new = ", ".join(map(str, self.new_classes[:8])) + (", ..." if len(self.new_classes) > 8 else "")
        lines = [f"{self.images} images learned in {duration(self.seconds)}; new classes: {new or 'none'}"]
        for row in self.heads:
            share = "" if row.right is None else f"{Share(count=row.right, of=row.of)}  "
            lines.append(f"  head {row.name:<9}{share}{row.reason}")
        if self.figures:
            lines += [f"  {share}  {text}" for text, share in self.figures.texts()]
            lines.append(f"  measured: {self.measured}")
        lines += [f"  {note}" for note in self.notes]
        if self.refused:
            lines += ["refused, the old state stays in use:", *(f"  {reason}" for reason in self.refused)]
        return printable("\n".join(lines))

    def judged(self, min_accuracy: float | None, max_damage: float | None) -> TaskRecord:
        """Return the record with the reasons to refuse the update, and with warnings."""
        reasons, notes, f = [], list(self.notes), self.figures
        for name, given in (("accuracy", min_accuracy), ("damage", max_damage)):
            if given is None:
                continue
            limit = 100 * given
            share = getattr(f, name) if f else Share(count=0, of=0)
            low = name == "accuracy"
            if low and not share.of:
                reasons.append("a limit was given, but nothing could be measured")
            elif share.of and (share.percent < limit if low else share.percent > limit):
                text = f"{name} is {share.percent:.1f} % ({share.count} of {share.of})"
                reasons.append(f"{text}, {'below' if low else 'above'} {limit:g} %")
            if share.of and 0 < (100 - limit if low else limit) < 100 / share.of:
                one = f"one of {share.of} is {100 / share.of:.1f} %"
                notes.append(f"the limit of {limit:g} % is finer than one image: {one}")
        others = max(f.before.percent, f.after.percent) if f else 0.0
        if f and f.before.of and f.accuracy.of and f.accuracy.percent < others / 2:
            notes.append(
                f"WARNING: the accuracy of this month's images is {f.accuracy.percent:.1f} %, less than half of the "
                f"{others:.1f} % of earlier ones: look at their labels (gplasc report), or go back (gplasc rollback)"
            )
        return self.model_copy(update={"refused": tuple(reasons), "notes": tuple(notes)})


def check_share(name: str, value: float | str) -> float:
    """Return a share from 0 to 1; "50%" is 0.5."""
    try:
        text = str(value)
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise UserError(f"{name} is {value!s:.99}; give a share such as 50% or 0.5")
    return share
