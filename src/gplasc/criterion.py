"""GPLASC for somebody else's training loop: features and labels in, named loss terms out."""

import copy
import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn

from gplasc import geometry, losses
from gplasc.losses import _inputs as inputs
from gplasc.losses.region import PositionTarget, RangeForm, center_cosine, class_sizes

__all__ = ["GPLASC"]

DISTILLATIONS = ("mse", "ird", "projector")


class GPLASC(nn.Module):
    """Give every task its own region of the unit sphere, and keep old samples where they were.

    Each task is assigned a vertex of a simplex frame. Three terms are added to whatever loss the loop has:

    - "range" keeps different classes of the current task at cosine >= k, so the task's region stays small;
    - "position" pulls the center of the current task's features to the task's vertex;
    - "distill" keeps features of past samples where the previous model put them.

    They come back by name, already multiplied by their lambda; add them to your own loss. A complete loop,
    with the encoder's output before its last ReLU (see "What can go wrong"):

    >>> import copy, torch
    >>> from torch import nn
    >>> from gplasc.criterion import GPLASC
    >>> from gplasc.losses import supcon, unit_rows
    >>>
    >>> draw = torch.Generator().manual_seed(0)
    >>> means = 3 * torch.randn(6, 20, generator=draw)  # six classes: three tasks of two
    >>> _ = torch.manual_seed(0)
    >>> encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))
    >>> criterion = GPLASC(num_tasks=3, feature_dim=16, margin=0.15, num_classes=2)
    >>> optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    >>> previous, memory_x = None, torch.empty(0, 20)
    >>> for task in range(3):
    ...     y = torch.arange(2 * task, 2 * task + 2).repeat(32)
    ...     x = means[y] + torch.randn(64, 20, generator=draw)
    ...     for step in range(60):
    ...         features = encoder(x)
    ...         old, teacher = None, None
    ...         if previous is not None:
    ...             old = encoder(memory_x)
    ...             with torch.no_grad():
    ...                 teacher = previous(memory_x)
    ...         terms = criterion(features, y, task, past_features=old, previous_features=teacher)
    ...         terms["supcon"] = supcon(unit_rows(features), y, temperature=0.5)
    ...         optimizer.zero_grad()
    ...         sum(terms.values()).backward()
    ...         optimizer.step()
    ...     previous = copy.deepcopy(encoder).eval()
    ...     memory_x = torch.cat([memory_x, x[:10]])
    >>> report = criterion.report()
    >>> report["center_cosine"] > 0.9, abs(report["center_norm"] - report["target_norm"]) < 0.1
    (True, True)

    **What to pass.** Either split the batch yourself, as above: `features`, `labels` are rows of the
    current task, and `past_features`, `previous_features` are the same past samples (the same augmented
    view) through the present and the previous model. Or pass one mixed batch and `past`, a boolean mask of
    the rows that belong to earlier tasks (by label, not by where the sample came from: a replay memory also
    holds current ones), with `previous_features` of all rows or of the past rows only. A mask costs one
    synchronization a step on a GPU. Features are raw encoder outputs of any float type; `normalized=True`
    says that they have unit rows already, and `gram` hands over their cosines.

    **Class counts.** The threshold k depends on the number of classes of a task. Say it once: `num_classes`
    here (one number, or one per task) or at the first call of a task, which is remembered. Otherwise the
    largest number of classes seen together in a batch of the task stands in; it grows to the true number
    and until then k is too low, never too high.

    **Settings.** position_target: "scaled" (the length that fits k, so that all terms can vanish together),
    "unit" (the paper's words), "cosine" (direction only). range_form: "hinge", "softplus", "leaky_relu",
    "squared_hinge". distillation: "mse" (between unit features), "ird" (relations between past samples),
    "projector" (raw features through an under-complete autoencoder; its parameters are this module's, give
    them to the optimizer), "none", or a sum with weights such as {"mse": 1.0, "ird": 0.5}. The rest are the
    reductions that the paper leaves open; see the functions in `gplasc.losses`. `seed` fixes the
    orientation of the frame.

    **What can go wrong.** Pooled ReLU features are never negative: no cosine is below 0, so with k <= 0 the
    hinge is identically zero, and a vertex, which has negative coordinates, cannot be reached. That is
    looked for at the first training batch of each task (inside torch.compile: at the next `report()`) and
    warned about once. `report()` tells after any step what the terms see.

    The frame, the settings and the class counts are in `state_dict`; loading restores all of them.
    """

    vertices: Tensor
    classes_seen: Tensor

    def __init__(
        self,
        num_tasks: int,
        feature_dim: int,
        *,
        margin: float = 0.1,
        lambda_range: float = 1.0,
        lambda_position: float = 1.0,
        lambda_distill: float = 1.0,
        num_classes: int | Sequence[int] | None = None,
        position_target: str = "scaled",
        position_dimensions: str = "sum",
        range_form: str = "hinge",
        range_reduction: str = "mean",
        distillation: str | Mapping[str, float] = "mse",
        distill_normalize: bool = True,
        student_temperature: float = 0.2,
        teacher_temperature: float = 0.01,
        projector_code_dim: int | None = None,
        projector_sigmoid: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.num_tasks = num_tasks
        self.feature_dim = feature_dim
        self.margin = margin
        self.lambda_range = lambda_range
        self.lambda_position = lambda_position
        self.lambda_distill = lambda_distill
        self.position_target = position_target
        self.position_dimensions = position_dimensions
        self.range_form = range_form
        self.range_reduction = range_reduction
        self.distillation = _weights(distillation)
        self.distill_normalize = distill_normalize
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature
        for name in ("lambda_range", "lambda_position", "lambda_distill"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}.")
        inputs.require_choice("position_target", position_target, get_args(PositionTarget))
        inputs.require_choice("position_dimensions", position_dimensions, ("sum", "mean"))
        inputs.require_choice("range_form", range_form, get_args(RangeForm))
        inputs.require_choice("range_reduction", range_reduction, ("mean", "mean_active", "sum"))
        inputs.require_positive("student_temperature", student_temperature)
        inputs.require_positive("teacher_temperature", teacher_temperature)

        generator = torch.Generator().manual_seed(seed)
        vertices = geometry.simplex_etf(num_tasks, feature_dim, generator=generator)
        # None stands for the simplex's own angle, which is known exactly.
        self.angle = geometry.smallest_angle(vertices) if feature_dim < num_tasks - 1 else None
        typical = geometry.region(num_tasks, 2, margin, angle=self.angle)
        self.class_counts = _class_counts(num_classes, num_tasks)
        self.register_buffer("vertices", vertices.float())
        self.register_buffer("classes_seen", torch.zeros(num_tasks, dtype=torch.int64))
        self.projector: losses.FeatureProjector | None = None
        if "projector" in self.distillation:
            self.projector = losses.FeatureProjector(
                feature_dim, projector_code_dim, sigmoid=projector_sigmoid, generator=generator
            )
        self._seen: dict[str, Tensor | float] = {}
        self._inspected: set[int] = set()
        self._uninspected: dict[int, Tensor] = {}
        self._warned: set[str] = set()
        no_center = num_tasks > 1 and typical.center_norm < 1e-6
        if no_center and lambda_position > 0 and position_target == "scaled":
            self._warn_once(
                "origin",
                "With two tasks and margin 0 the regions are half spheres and their centers are the origin, "
                "so the position term does not separate the tasks: choose a margin above 0.",
            )

    def forward(
        self,
        features: Tensor,
        labels: Tensor,
        task: int,
        *,
        num_classes: int | None = None,
        past: Tensor | None = None,
        past_features: Tensor | None = None,
        previous_features: Tensor | None = None,
        gram: Tensor | None = None,
        normalized: bool = False,
    ) -> dict[str, Tensor]:
        """Return {"range", "position", "distill"}, tensors () multiplied by their lambda.

        features: (N, feature_dim); labels: (N,) integers; task: 0 .. num_tasks - 1; num_classes: of this
        task; past: (N,) bool, or past_features: (M, feature_dim); previous_features: (M, feature_dim), with
        `past` also (N, feature_dim); gram: (N, N) cosines of the features. A term that has nothing to act
        on is 0.
        """
        task = self._check_task(task)
        self._check_width("features", features)
        inputs.require_labels(labels, len(features))
        if past is not None:
            if past_features is not None or gram is not None:
                raise ValueError("past marks rows of features: leave out past_features and gram.")
            inputs.require_mask("past", past, len(features))
            if previous_features is not None and len(previous_features) == len(past):
                previous_features = previous_features[past]
            past_features, features, labels = features[past], features[~past], labels[~past]
            if previous_features is None:
                past_features = None
        if (past_features is None) != (previous_features is None):
            raise ValueError("past_features and previous_features belong together: pass both or neither.")
        if num_classes is not None:
            self._remember_classes(task, num_classes)
        with inputs.full_precision(features):
            z = inputs.promote(features) if normalized else losses.unit_rows(features)
            threshold, norm = self._threshold(labels, task)
            if self.training and task not in self._inspected and len(z) > 0:
                if torch.compiler.is_compiling():
                    # A compiled graph cannot wait for the answer; the next report does.
                    self._uninspected[task] = z.detach().amin()
                else:
                    self._inspect(z.detach().amin(), task)
            return {
                "range": self._range(z, labels, threshold, gram),
                "position": self._position(z, labels, task, norm),
                "distill": self._distill(z, past_features, previous_features, normalized),
            }

    def region(self, task: int) -> geometry.Region:
        """Size of a task's region, for its class count stated or (which waits for the device) seen so far."""
        task = self._check_task(task)
        count = self.class_counts[task] or int(self.classes_seen[task])
        if count == 0:
            raise ValueError(
                f"task {task} has no class count yet: pass num_classes, or call with a batch first."
            )
        return geometry.region(self.num_tasks, count, self.margin, angle=self.angle)

    def report(self) -> dict[str, float]:
        """What the terms saw in the last step, as numbers; only this call waits for the device.

        active_hinge_fraction: share of pairs of different classes below the threshold; center_norm and
        center_cosine: length of the task's center, and its cosine to the vertex; threshold and
        target_norm: what is asked for. Empty before the first step; entries whose lambda is 0 are left out.
        """
        while self._uninspected:
            task, lowest = self._uninspected.popitem()
            if task not in self._inspected:
                self._inspect(lowest, task)
        return {name: float(value) for name, value in self._seen.items()}

    def load_report(self, report: Mapping[str, float]) -> None:
        """Take back what `report` returned, so that a resumed run can still tell of the step before it."""
        self._seen = dict(report)

    def get_extra_state(self) -> dict[str, Any]:
        """Settings and class counts, as plain values that torch.load(weights_only=True) accepts."""
        return copy.deepcopy({name: getattr(self, name) for name in _SETTINGS})

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_extra_state` returned."""
        for name in ("num_tasks", "feature_dim"):
            if state[name] != getattr(self, name):
                raise ValueError(
                    f"the checkpoint has {name} {state[name]}, this object {getattr(self, name)}."
                )
        for name in _SETTINGS:
            setattr(self, name, copy.deepcopy(state[name]))

    def extra_repr(self) -> str:
        """Return the settings that differ between users."""
        return (
            f"num_tasks={self.num_tasks}, feature_dim={self.feature_dim}, margin={self.margin}, "
            f"lambda_range={self.lambda_range}, lambda_position={self.lambda_position}, "
            f"lambda_distill={self.lambda_distill}, position_target={self.position_target!r}, "
            f"range_form={self.range_form!r}, distillation={self.distillation}"
        )

    def _threshold(self, labels: Tensor, task: int) -> tuple[float | Tensor, float | Tensor]:
        """Threshold k and center norm of the task: numbers when the class count is stated, else tensors."""
        count = self.class_counts[task]
        if count is not None:
            known = geometry.region(self.num_tasks, count, self.margin, angle=self.angle)
            return known.k, known.center_norm
        present = (1 / class_sizes(labels).float()).sum().round().long()
        seen = torch.maximum(self.classes_seen[task], present)
        if self.training:
            self.classes_seen[task] = seen.detach()
        if self.num_tasks == 1:
            return -1.0, 0.0
        # With C classes 1 - k = C / (C - 1) * radius ** 2, and the radius is the same for all C. Staying in
        # tensors avoids asking the device for the count.
        pair = geometry.region(self.num_tasks, 2, self.margin, angle=self.angle)
        classes = seen.float()
        k = 1 - pair.radius**2 * classes / (classes - 1).clamp(min=1)
        several = seen > 1
        return torch.where(several, k, -1.0), torch.where(several, pair.center_norm, 1.0)

    def _range(self, z: Tensor, labels: Tensor, threshold: float | Tensor, gram: Tensor | None) -> Tensor:
        if self.lambda_range == 0 or self.num_tasks == 1:
            return z.sum() * 0.0
        terms = losses.range_terms(
            z, labels, threshold, form=self.range_form, reduction=self.range_reduction, gram=gram
        )
        self._seen["threshold"] = threshold.detach() if isinstance(threshold, Tensor) else threshold
        self._seen["active_hinge_fraction"] = terms.active_fraction
        return self.lambda_range * terms.loss

    def _position(self, z: Tensor, labels: Tensor, task: int, norm: float | Tensor) -> Tensor:
        if self.lambda_position == 0 or self.num_tasks == 1 or len(z) == 0:
            return z.sum() * 0.0
        mean = losses.task_center(z, labels)
        vertex = self.vertices[task].to(mean.dtype)
        self._seen["center_norm"] = torch.linalg.vector_norm(mean.detach())
        self._seen["center_cosine"] = center_cosine(mean.detach(), vertex)
        if self.position_target == "unit":
            self._seen["target_norm"] = 1.0
        else:
            self._seen["target_norm"] = norm.detach() if isinstance(norm, Tensor) else norm
        return self.lambda_position * losses.center_loss(
            mean, vertex, target=self.position_target, norm=norm, dimensions=self.position_dimensions
        )

    def _distill(self, z: Tensor, student: Tensor | None, teacher: Tensor | None, normalized: bool) -> Tensor:
        total = z.sum() * 0.0
        if student is None or teacher is None or self.lambda_distill == 0:
            return total
        self._check_width("past_features", student)
        self._check_width("previous_features", teacher)
        for name, weight in self.distillation.items():
            if name == "mse":
                normalize = self.distill_normalize and not normalized
                term = losses.feature_distillation(student, teacher, normalize=normalize)
            elif name == "ird":
                term = losses.relation_distillation(
                    student if normalized else losses.unit_rows(student),
                    teacher if normalized else losses.unit_rows(teacher),
                    student_temperature=self.student_temperature,
                    teacher_temperature=self.teacher_temperature,
                )
            else:
                assert self.projector is not None
                term = losses.projector_distillation(student, teacher, self.projector)
            total = total + weight * term
        return self.lambda_distill * total

    def _remember_classes(self, task: int, count: int) -> None:
        known = self.class_counts[task]
        if count < 1:
            raise ValueError(f"num_classes must be at least 1, got {count}.")
        if known is not None and known != count:
            raise ValueError(
                f"task {task} was said to have {known} classes, now {count}: the number must stay the same, "
                "since the task's region depends on it."
            )
        self.class_counts[task] = count

    def _check_task(self, task: int) -> int:
        task = operator.index(task)
        if not 0 <= task < self.num_tasks:
            raise ValueError(
                f"task {task} has no vertex: this object was made for tasks 0 to {self.num_tasks - 1}; make "
                "it with a larger num_tasks (an over-estimate costs little)."
            )
        return task

    def _check_width(self, name: str, features: Tensor) -> None:
        inputs.require_rows(name, features)
        if features.shape[1] != self.feature_dim:
            raise ValueError(
                f"{name} must have shape (N, {self.feature_dim}), got {tuple(features.shape)}: "
                "feature_dim is the width of the encoder's output."
            )

    def _inspect(self, lowest: Tensor, task: int) -> None:
        """Warn when the terms cannot act on features whose smallest entry is `lowest`; waits for the device."""
        self._inspected.add(task)
        if self.num_tasks == 1 or float(lowest) < 0:
            return
        count = self.class_counts[task] or max(1, int(self.classes_seen[task]))
        k = geometry.region(self.num_tasks, count, self.margin, angle=self.angle).k
        advice = "use features that can be negative, for example the encoder's output before its last ReLU."
        if self.lambda_range > 0 and count > 1 and k <= 0 and self.range_form in ("hinge", "squared_hinge"):
            self._warn_once(
                "range",
                "The range term is identically zero: the features are never negative, so no cosine is below "
                f"the threshold {k:.4f}; {advice}",
            )
        vertex = self.vertices[task].double()
        reachable = float(torch.linalg.vector_norm(vertex.clamp(min=0)))
        if self.lambda_position > 0 and reachable < 0.999:
            self._warn_once(
                "position",
                "The position term cannot reach its vertex: the features are never negative, so their center "
                f"comes no closer to it than cosine {reachable:.2f}; {advice}",
            )

    def _warn_once(self, key: str, message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, stacklevel=4)


_SETTINGS = (
    "num_tasks",
    "feature_dim",
    "margin",
    "lambda_range",
    "lambda_position",
    "lambda_distill",
    "position_target",
    "position_dimensions",
    "range_form",
    "range_reduction",
    "distillation",
    "distill_normalize",
    "student_temperature",
    "teacher_temperature",
    "angle",
    "class_counts",
)


def _weights(distillation: str | Mapping[str, float]) -> dict[str, float]:
    """{"mse": 1.0} of "mse"; an empty dict of "none"; zero weights are dropped."""
    if distillation == "none":
        return {}
    weights = {distillation: 1.0} if isinstance(distillation, str) else dict(distillation)
    for name, weight in weights.items():
        inputs.require_choice("distillation", name, DISTILLATIONS)
        if not weight >= 0:
            raise ValueError(f"the weight of distillation {name!r} must be 0 or more, got {weight}.")
    return {name: float(weight) for name, weight in weights.items() if weight > 0}


def _class_counts(num_classes: int | Sequence[int] | None, num_tasks: int) -> list[int | None]:
    """One count a task, None where it is not known yet."""
    if num_classes is None:
        return [None] * num_tasks
    counts = [num_classes] * num_tasks if isinstance(num_classes, int) else list(num_classes)
    if len(counts) != num_tasks or any(count < 1 for count in counts):
        raise ValueError(
            f"num_classes must be one number, or {num_tasks} numbers (one a task), all at least 1, "
            f"got {num_classes}."
        )
    return [int(count) for count in counts]
