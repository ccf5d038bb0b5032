"""Measurements of the terms and warnings about features on which they cannot act."""

import sys
import warnings

import torch
from torch import Tensor

from gplasc.criterion.regions import Regions
from gplasc.losses import kernels

# Reading a value synchronizes any other device, so there the checks do so once in so many calls.
_DEVICES_WITHOUT_SYNC = ("cpu",)
_CHECK_EVERY = 100
_SMALLEST_CENTER = 1e-3
_FEWEST_ROWS = 8
# Rows whose squared distance to their mean is below this have the same direction. An untrained encoder can give such
# rows too, so only many batches in a row count as a collapse.
_SAME_DIRECTION = 1e-4
_SAME_CALLS = 20

_ADVICE = (
    'pass frame="nonnegative", or use features that can be negative, for example the encoder\'s output before its '
    "last ReLU."
)


class Monitor:
    """What the terms saw last, and warnings, each given once; `advice` ends one about features never negative."""

    def __init__(self, advice: str = _ADVICE) -> None:
        self.seen: dict[str, Tensor | float] = {}
        self._advice = advice
        self._inspected: set[int] = set()
        self._waiting: dict[int, tuple[Tensor, Regions, bool, bool]] = {}
        self._faults: Tensor | None = None
        self._same: Tensor | None = None  # batches in a row whose rows all had the same direction
        self._calls = 0
        self._warned: set[str] = set()

    def note(self, **values: float | Tensor) -> None:
        """Store measurements of the last step, without synchronizing the device."""
        self.seen |= {
            name: value.detach() if isinstance(value, Tensor) else value for name, value in values.items()
        }

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

    def check(self, z: Tensor, labels: Tensor, student: Tensor | None, teacher: Tensor | None) -> None:
        """Raise an error for NaN and infinite features and warn about collapsed ones, without frequent syncs."""
        if z.device.type == "meta":
            return
        faults = [z.new_zeros(())] * 6
        for index, rows in enumerate((z, student, teacher)):
            if rows is not None:
                faults[index] = (~kernels.promote(rows.detach()).sum().isfinite()).to(z.dtype)
        if len(z) > 0:
            # A row of zeros stays one when it is normalized. A few rows are not enough to see a share of them.
            share = (torch.linalg.vector_norm(z.detach(), dim=1) < 0.5).to(z.dtype).mean()
            faults[3] = share if len(z) >= _FEWEST_ROWS else share.floor()
            center = self.seen.get("center_norm")
            if isinstance(center, Tensor):
                faults[4] = (center < _SMALLEST_CENTER).to(z.dtype)
            faults[5] = self._same = self._count_same(z.detach(), labels)
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

    def _count_same(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return how many batches in a row had one direction for all their rows; those of one class do not count."""
        before = z.new_zeros(()) if self._same is None else self._same.to(z)
        same = (z - z.mean(0)).square().sum(1).amax() < _SAME_DIRECTION
        return torch.where((labels != labels[0]).any(), same * (before + 1), before)

    def _read_faults(self) -> str | None:
        """Warn about collapsed features; return a message about features that are not finite. Synchronizes."""
        assert self._faults is not None
        *broken, zeros, no_center, same = self._faults.tolist()
        self._faults = None
        names = ("features", "past_features", "previous_features")
        wrong = [name for name, fault in zip(names, broken, strict=True) if fault]
        if wrong:
            return (
                f"{' and '.join(wrong)} must be finite, but contain NaN or infinite values: lower the learning rate, "
                "or check the inputs of the encoder."
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
        if not module.startswith("gplasc.criterion.") and module.partition(".")[0] != "torch":
            break
        frame, level = frame.f_back, level + 1
    return level
