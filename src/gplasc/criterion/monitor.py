"""Measurements of the terms and warnings about features on which they cannot act."""

import sys
import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from gplasc.criterion.regions import Regions
from gplasc.losses import kernels

# Reading a value synchronizes any other device, so there the checks do so once in so many calls.
_DEVICES_WITHOUT_SYNC = ("cpu",)
_CHECK_EVERY = 100
_SMALLEST_CENTER = 1e-3
_FEWEST_ROWS = 8
# Squared distance to their mean of rows that have the same direction. An untrained encoder can give such rows too, so
# only many batches in a row count as a collapse.
_SAME_DIRECTION = 1e-4
_SAME_CALLS = 20

_ADVICE = 'pass frame="nonnegative", or use features that can be negative: those before the last ReLU.'


class Monitor:
    """What the terms saw last, whether they act, and warnings, each given once.

    `advice` ends the warning about features that are never negative.
    """

    def __init__(self, advice: str = _ADVICE) -> None:
        self.seen: dict[str, Tensor | float] = {}
        self._advice = advice
        self._inspected: set[int] = set()
        self._waiting: dict[int, tuple[Tensor, Regions, bool, bool]] = {}
        self._faults: Tensor | None = None
        self._same: Tensor | None = None  # batches in a row whose rows all had the same direction
        self._calls = 0
        self._warned: set[str] = set()
        self._terms: dict[str, Tensor] = {}
        self._arrived: set[str] = set()  # terms whose gradient was computed
        self._watched = True
        self._detached = 0  # calls in a row with features that have no gradient
        self._without = 0  # calls in a row without rows of the current task

    def follow(self, terms: Mapping[str, Tensor], features: Tensor) -> None:
        """Note the size of each term and whether a backward pass reaches it; warn if none can reach the features."""
        self._terms = {name: term.detach() for name, term in terms.items()}
        self._watched = not torch.compiler.is_compiling()  # a graph has no hooks
        if not self._watched or not torch.is_grad_enabled():
            return
        for name, term in terms.items():
            if term.requires_grad:
                term.register_hook(lambda gradient, name=name: self._arrived.add(name))
        self._detached = 0 if features.requires_grad or not len(features) else self._detached + 1
        if self._detached == _SAME_CALLS:
            self.warn_detached()
        self._without = 0 if len(features) else self._without + 1
        if self._without == _SAME_CALLS:
            self.warn_once(
                "labels",
                f"No row of {_SAME_CALLS} batches belongs to the current task, so range and position are 0: number "
                "labels over all tasks, not from 0 in each task, or correct the mask of past rows.",
            )

    def warn_detached(self) -> None:
        """Warn that the terms cannot train an encoder."""
        self.warn_once(
            "detached",
            "The features have no gradient, so the terms cannot train the encoder: pass the output of the encoder "
            "itself, not detached, not computed under torch.no_grad, and not of a frozen encoder.",
        )

    def acting(self) -> str:
        """Say in one line whether the terms act: the size of each, and whether its gradient reaches the encoder."""
        if not self._terms:
            return "no: the criterion was not called yet"
        states = {}
        for name, term in self._terms.items():
            state = "acts" if name in self._arrived else "not in a backward pass: is it added to the loss?"
            state = "compiled, not watched" if not self._watched else state
            state = "features without gradient" if self._detached else state
            states[name] = state if float(term) else "zero"
        sizes = ", ".join(f"{name} {float(self._terms[name]):z.3g} ({states[name]})" for name in states)
        return f"{'yes' if 'acts' in states.values() else 'no'}: {sizes}"

    def note(self, **values: float | Tensor) -> None:
        """Store measurements of the last step, without synchronizing the device."""
        for name, value in values.items():
            self.seen[name] = value.detach() if isinstance(value, Tensor) else value

    def report(self) -> dict[str, float]:
        """Return the measurements as numbers and give the warnings that waited for it. Synchronizes the device."""
        self._inspect()
        if self._faults is not None and (message := self._read_faults()):
            self.warn_once("faults", message)
        return {name: float(value) for name, value in self.seen.items()}

    def inspect(self, z: Tensor, regions: Regions, task: int, *, hinge: bool, position: bool) -> None:
        """Warn, once a task, if a hinge or the position term cannot act on the rows; synchronizes the device."""
        if task in self._inspected or len(z) == 0:
            return
        self._waiting[task] = (z.detach().amin(), regions, hinge, position)
        if not torch.compiler.is_compiling():  # a compiled graph cannot read the value; the next report does
            self._inspect()

    def check(
        self, z: Tensor, labels: Tensor, student: Tensor | None, teacher: Tensor | None, stated: int | None
    ) -> None:
        """Raise an error for features that are not finite or too many classes, and warn of a collapse."""
        if z.device.type == "meta":
            return
        faults = [z.new_zeros(())] * 3
        for index, rows in enumerate((z, student, teacher)):
            if rows is not None:
                faults[index] = (~kernels.promote(rows.detach()).sum().isfinite()).to(z.dtype)
        faults += self._collapse(z.detach(), labels) if len(z) else [z.new_zeros(())] * 3
        present = (1 / kernels.class_sizes(labels).to(z.dtype)).sum().round()
        faults.append(torch.where(present > (stated or len(z)), present, 0.0))
        stacked = torch.stack(faults)
        if self._faults is not None:
            stacked = torch.maximum(stacked, self._faults.to(stacked))
        self._faults = stacked
        if torch.compiler.is_compiling():
            return
        self._calls += 1
        if z.device.type in _DEVICES_WITHOUT_SYNC or self._calls % _CHECK_EVERY == 0:
            message = self._read_faults()
            if message is not None:
                raise ValueError(message)

    def warn_once(self, key: str, message: str) -> None:
        """Give a warning at the line that called the criterion, once."""
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, stacklevel=_caller_level())

    def _collapse(self, z: Tensor, labels: Tensor) -> list[Tensor]:
        """Return the share of zero rows, whether the center is 0, and for how many batches all rows are the same."""
        # A row of zeros stays one when it is normalized. A few rows are not enough to see a share of them.
        share = (torch.linalg.vector_norm(z, dim=1) < 0.5).to(z.dtype).mean()
        center = self.seen.get("center_norm")
        no_center = (center < _SMALLEST_CENTER).to(z.dtype) if isinstance(center, Tensor) else z.new_zeros(())
        before = z.new_zeros(()) if self._same is None else self._same.to(z)
        same = (z - z.mean(0)).square().sum(1).amax() < _SAME_DIRECTION
        # Batches of one class do not count.
        self._same = torch.where((labels != labels[0]).any(), same * (before + 1), before)
        return [share if len(z) >= _FEWEST_ROWS else share.floor(), no_center, self._same]

    def _read_faults(self) -> str | None:
        """Warn about collapsed features; return a message about features that are not finite. Synchronizes."""
        assert self._faults is not None
        *broken, zeros, no_center, same, classes = self._faults.tolist()
        self._faults = None
        names = ("features", "past_features", "previous_features")
        wrong = [name for name, fault in zip(names, broken, strict=True) if fault]
        if wrong:
            return (
                f"{' and '.join(wrong)} must be finite, but contain NaN or infinite values: lower the learning rate, "
                "or check the inputs of the encoder."
            )
        if classes:
            return (
                f"a batch of one task has {classes:.0f} different labels, more than num_classes says: pass the number "
                "of classes of each task, or leave it out to count them."
            )
        symptoms = {
            f"{zeros:.0%} of the rows are zero vectors": zeros >= 0.5,
            "the center of the task is 0": no_center,
            f"all classes had the same direction in {_SAME_CALLS} batches in a row": same >= _SAME_CALLS,
        }
        if symptom := next((text for text, there in symptoms.items() if there), None):
            self.warn_once(
                "collapse",
                f"The features have collapsed: {symptom}. Such features get no useful gradient from the terms: lower "
                'the learning rate or lambda_position, or pass frame="nonnegative" for ReLU features.',
            )
        return None

    def _inspect(self) -> None:
        """Warn if the terms cannot act on the features that wait for it; synchronizes the device."""
        while self._waiting:
            task, (lowest, regions, hinge, position) = self._waiting.popitem()
            self._inspected.add(task)
            if regions.alone or not float(lowest) >= 0:
                continue
            count = regions.class_counts[task] or max(1, int(regions.classes_seen[task]))
            k = regions.size(count).k
            if hinge and count > 1 and k <= 0:
                self.warn_once(
                    "range",
                    "The range term is identically zero: the features are never negative, so no cosine is below "
                    f"the threshold {k:.4f}; {self._advice}",
                )
            reachable = float(torch.linalg.vector_norm(regions.vertices[task].double().clamp(min=0)))
            if position and reachable < 0.999:
                self.warn_once(
                    "position",
                    "The position term cannot reach its vertex: the features are never negative, so their center "
                    f"comes no closer to it than cosine {reachable:.2f}; {self._advice}",
                )


def _caller_level() -> int:
    """Return the stacklevel, for a caller of this function, of the first frame outside this package and torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in ("gplasc", "torch"):
            break
        frame, level = frame.f_back, level + 1
    return level
