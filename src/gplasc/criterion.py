"""GPLASC as a criterion for any training loop: features and labels in, named loss terms out."""

import json
import math
import numbers
import operator
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from gplasc import geometry, losses
from gplasc.losses import kernels
from gplasc.losses._blocks import full_precision
from gplasc.losses._checks import (
    check_choice,
    check_labels,
    check_mask,
    check_pair,
    check_positive,
    check_rows,
)
from gplasc.losses.kernels import RangeForm
from gplasc.losses.region import PositionTarget

__all__ = ["GPLASC", "Distillation", "Frame"]

Frame = Literal["auto", "simplex", "orthonormal", "nonnegative"]
"""The arrangement of the tasks' directions."""
Distillation = Literal["mse", "ird", "projector"]
"""The distance between past features and those of the previous model."""

# Features count as non-negative if at most this share of their squared norm comes from negative entries.
_NEGATIVE_SHARE = 0.1
# Reading a value synchronizes any other device, so there the checks do so once in so many calls.
_DEVICES_WITHOUT_SYNC = ("cpu",)
_CHECK_EVERY = 100
_SMALLEST_CENTER = 1e-3
_FEWEST_ROWS = 8
# Rows whose squared distance to their mean is below this have the same direction. An untrained encoder can give such
# rows too, so only many batches in a row count as a collapse.
_SAME_DIRECTION = 1e-4
_SAME_CALLS = 20

_EAGER = "the frame is chosen from the first batch; pass frame to compile the whole graph"


class GPLASC(nn.Module):
    """Adds three loss terms that place each task in its own region of the unit sphere.

    Each task has a direction, a row of a frame. The terms are returned by name and multiplied by their lambda; add them
    to the loss of the training loop:

    - "range" keeps different classes of the current task at cosine >= k, which limits the size of the region;
    - "position" moves the center of the current task's features to the task's direction;
    - "distill" keeps the features of past samples close to those of the previous model;
    - "assign", if `lambda_assign` is above 0, classifies the task of current and past samples by the cosines with the
      directions, see `gplasc.losses.assignment_loss`. It is not in the paper.

    >>> import copy, torch
    >>> from torch import nn
    >>> from gplasc.criterion import GPLASC
    >>> from gplasc.losses import supcon, unit_rows
    >>>
    >>> draw = torch.Generator().manual_seed(0)
    >>> means = 3 * torch.randn(6, 20, generator=draw)  # six classes: three tasks of two
    >>> _ = torch.manual_seed(0)
    >>> encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))
    >>> criterion = GPLASC(3, 16, margin=0.15, lambda_range=0.1, lambda_position=1.0, num_classes=2)
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

    **Batches.** Either split the batch, as above: `features` and `labels` are rows of the current task;
    `past_features` and `previous_features` are features of the same past samples (the same augmented view) from the
    current and the previous model. Or pass one mixed batch and `past`, a boolean mask of the rows whose label belongs
    to an earlier task, with `previous_features` of all rows or of the past rows. A mask synchronizes a GPU once per
    step. Features are raw encoder outputs of any float type.

    **Number of classes.** The threshold k depends on the number of classes of a task. Pass `num_classes` here or at the
    first call for a task, which is stored. Otherwise the largest number of classes in one batch of the task is used; k
    is then too low until a batch has all classes, never too high.

    **Frames.** "simplex" is the published one: the largest angle between the tasks. It has negative entries, which
    non-negative features (pooled ReLU outputs, the output of most backbones) cannot reach: their range term can be
    identically zero, and the position term degrades the features. "nonnegative" has orthogonal directions with disjoint
    supports, which they can reach. "orthonormal" is for signed features and a number of tasks that is not known.
    "auto", the default, is "nonnegative" if less than a tenth of the squared norm of the first batch comes from
    negative entries, and "simplex" otherwise. The first call reads the data for this; with
    `torch.compile(fullgraph=True)` pass one of the other three. `extend` adds directions to any frame and moves none.

    **Short features.** The terms see unit rows, so their gradient is inversely proportional to the norm of the
    features: for an encoder whose features are short at first it is large enough to set all ReLU outputs to 0 for good.
    Therefore features shorter than 1 receive the gradient of features of norm 1; `limit_gradient=False` disables this.

    **Checks.** Lists, arrays and wrong shapes raise an error that names the argument. Features that are NaN or infinite
    raise an error, and features that collapse (rows of zeros, a center of norm 0, or the same direction for all classes
    in 20 batches in a row) cause a warning at the line that called the criterion. On the CPU both are checked at each
    call; on other devices once in 100 calls and in `report()`, so that the device is not synchronized at every step; in
    compiled code in `report()`.

    **State.** `state_dict` holds tensors only, so safetensors can store it: the frame, the numbers of classes seen, the
    projector, and under `_extra_state` the settings as UTF-8 JSON in a uint8 tensor. `load_state_dict` restores all of
    them, the number of tasks included; only `feature_dim` and the projector must agree.

    Args:
        num_tasks: The number of tasks to prepare directions for.
        feature_dim: The number of features.
        margin: The share by which the squared radius of a region is reduced, in [0, 1).
        lambda_range: The weight of the range term. The paper has 1.0 for all three weights beside a contrastive loss.
            Beside cross-entropy 0.1 already cost a point of accuracy (benchmarks/criterion_safety.py), so the defaults
            are smaller.
        lambda_position: The weight of the position term.
        lambda_distill: The weight of the distillation term.
        lambda_assign: The weight of the assignment term.
        assign_temperature: The temperature of the assignment term.
        num_classes: The number of classes per task, one number or one per task. Default: see above.
        frame: The arrangement of the directions: "auto", "simplex", "orthonormal" or "nonnegative".
        position_target: "scaled" has the norm that fits k, so that all terms can be 0 together; "unit" is as published.
        range_form: See `form` of `gplasc.losses.range_loss`.
        distillation: "mse" (between unit features), "ird" (relations between past samples), "projector" (raw features
            through an autoencoder, whose parameters belong to this module: add them to the optimizer), "none", or
            weights such as {"mse": 1.0, "ird": 0.5}.
        student_temperature: The temperature of "ird" for the current model.
        teacher_temperature: The temperature of "ird" for the previous model.
        projector_code_dim: See `code_dim` of `gplasc.losses.FeatureProjector`.
        projector_sigmoid: See `sigmoid` of `gplasc.losses.FeatureProjector`.
        check_features: Whether to check for NaN, infinite and collapsed features.
        limit_gradient: Whether to limit the gradient of short features, see above. False is as published.
        seed: The seed of the orientation of the frame.

    Raises:
        TypeError: If a number that must be an integer is not.
        ValueError: If a value is out of its range or an option is unknown.
    """

    advice_for_nonnegative: ClassVar[str] = (
        'pass frame="nonnegative", or use features that can be negative, for example the encoder\'s output before its '
        "last ReLU."
    )
    vertices: Tensor
    classes_seen: Tensor

    def __init__(
        self,
        num_tasks: int,
        feature_dim: int,
        *,
        margin: float = 0.1,
        lambda_range: float = 0.02,
        lambda_position: float = 0.02,
        lambda_distill: float = 0.1,
        lambda_assign: float = 0.0,
        assign_temperature: float = 0.05,
        num_classes: int | Sequence[int] | None = None,
        frame: Frame = "auto",
        position_target: PositionTarget = "scaled",
        range_form: RangeForm = "hinge",
        distillation: Distillation | Literal["none"] | Mapping[str, float] = "mse",
        student_temperature: float = 0.2,
        teacher_temperature: float = 0.01,
        projector_code_dim: int | None = None,
        projector_sigmoid: bool = True,
        check_features: bool = True,
        limit_gradient: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.num_tasks = _integer("num_tasks", num_tasks)
        self.feature_dim = _integer("feature_dim", feature_dim)
        self.margin = margin
        self.lambda_range = lambda_range
        self.lambda_position = lambda_position
        self.lambda_distill = lambda_distill
        self.lambda_assign = lambda_assign
        self.assign_temperature = assign_temperature
        self.frame: Frame = frame
        self.position_target: PositionTarget = position_target
        self.range_form: RangeForm = range_form
        self.distillation = _distillation_weights(distillation)
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature
        self.check_features = check_features
        self.limit_gradient = limit_gradient
        self.seed = seed
        for name in ("margin", "lambda_range", "lambda_position", "lambda_distill", "lambda_assign"):
            if not isinstance(getattr(self, name), numbers.Real):
                raise TypeError(f"{name} must be a number, got {getattr(self, name)!r}.")
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}.")
        check_choice("frame", frame, get_args(Frame))
        check_choice("position_target", position_target, get_args(PositionTarget))
        check_choice("range_form", range_form, get_args(RangeForm))
        check_positive("assign_temperature", assign_temperature)
        check_positive("student_temperature", student_temperature)
        check_positive("teacher_temperature", teacher_temperature)

        generator = torch.Generator().manual_seed(seed)
        vertices, self.angle = _build_frame(frame, self.num_tasks, self.feature_dim, generator)
        self.class_counts = _class_counts(num_classes, self.num_tasks)
        self.register_buffer("vertices", vertices.float())
        self.register_buffer("classes_seen", torch.zeros(self.num_tasks, dtype=torch.int64))
        self.projector: losses.FeatureProjector | None = None
        if "projector" in self.distillation:
            self.projector = losses.FeatureProjector(
                self.feature_dim, projector_code_dim, sigmoid=projector_sigmoid, generator=generator
            )
        self._seen: dict[str, Tensor | float] = {}
        self._inspected: set[int] = set()
        self._uninspected: dict[int, Tensor] = {}
        self._faults: Tensor | None = None
        self._same: Tensor | None = None  # batches in a row whose rows all had the same direction
        self._calls = 0
        self._warned: set[str] = set()
        no_center = self.num_tasks > 1 and self._region(2).center_norm < 1e-6
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
        past_tasks: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the terms of one batch.

        Args:
            features: Features of shape (N, feature_dim).
            labels: Integer labels of shape (N,).
            task: The current task, in [0, num_tasks).
            num_classes: The number of classes of this task.
            past: A boolean mask of shape (N,) of the rows that belong to earlier tasks.
            past_features: Features of past samples, shape (M, feature_dim), instead of `past`.
            previous_features: Features of the past samples from the previous model, shape (M, feature_dim); with `past`
                also (N, feature_dim).
            past_tasks: The task of each past sample, integers of shape (M,), with `past` also (N,): past samples take
                part in the assignment if it is given.

        Returns:
            {"range", "position", "distill"}, and "assign" if its weight is above 0: tensors of shape () multiplied by
            their lambda. A term without rows or pairs is 0 and part of the graph.

        Raises:
            TypeError: If an argument is not a tensor of the right type.
            ValueError: If shapes do not fit, the task has no direction, or features are NaN or infinite.
        """
        task = self._check_task(task)
        self._check_width("features", features)
        check_labels(labels, len(features), "labels")
        if past is not None:
            if past_features is not None:
                raise ValueError("past marks rows of features: leave out past_features.")
            check_mask("past", past, len(features))
            if previous_features is not None:
                self._check_width("previous_features", previous_features)
                if len(previous_features) == len(past):
                    previous_features = previous_features[past]
            if past_tasks is not None and len(past_tasks) == len(past):
                past_tasks = past_tasks[past]
            past_features, features, labels = features[past], features[~past], labels[~past]
            if previous_features is None and past_tasks is None:
                past_features = None
        if past_features is None and (previous_features is not None or past_tasks is not None):
            raise ValueError(
                "previous_features and past_tasks belong together with past_features: pass that too."
            )
        if past_features is not None and previous_features is None and past_tasks is None:
            raise ValueError("past_features and previous_features belong together: pass both or neither.")
        if num_classes is not None:
            self._remember_classes(task, num_classes)
        with full_precision(features):
            z = self._unit_rows(features)
            if self.frame == "auto" and self.num_tasks > 1 and len(z) > 0:
                if torch.compiler.is_compiling():  # a decorator would import torch._dynamo: two seconds
                    torch.compiler.disable(self._choose_frame, reason=_EAGER)(z)
                else:
                    self._choose_frame(z)
            threshold, norm = self._threshold(labels, task)
            if self.training and task not in self._inspected and len(z) > 0 and self.frame != "auto":
                if torch.compiler.is_compiling():
                    # A compiled graph cannot read the value; the next report does.
                    self._uninspected[task] = z.detach().amin()
                else:
                    self._inspect(z.detach().amin(), task)
            terms = {
                "range": self._range(z, labels, threshold),
                "position": self._position(z, labels, task, norm),
                "distill": self._distill(z, past_features, previous_features),
            }
            if self.lambda_assign > 0:
                terms["assign"] = self._assign(z, task, past_features, past_tasks)
            if self.check_features and z.device.type != "meta":
                self._check_features(z, labels, past_features, previous_features)
            return terms

    def extend(self, num_tasks: int, *, num_classes: int | None = None) -> None:
        """Add directions for further tasks. Those of the first tasks do not change.

        The new directions are orthogonal to all others, so a frame has room for about `feature_dim` tasks. The smallest
        angle between the tasks becomes 90 degrees: extending a simplex reduces the regions of later tasks slightly.

        Args:
            num_tasks: The new number of tasks.
            num_classes: The number of classes of each further task. Default: stated or counted later.

        Raises:
            ValueError: If `num_tasks` is less than now, or the feature dimension has no room for it.
        """
        num_tasks = _integer("num_tasks", num_tasks)
        more = num_tasks - self.num_tasks
        if more < 0:
            raise ValueError(f"num_tasks is {self.num_tasks} and can only grow, got {num_tasks}.")
        if more == 0:
            return
        counts = _class_counts(num_classes, more)
        generator = torch.Generator().manual_seed(self.seed + self.num_tasks)
        if self.frame == "auto":  # no direction was used yet
            vertices, self.angle = _build_frame("simplex", num_tasks, self.feature_dim, generator)
        else:
            build = geometry.nonnegative_frame if self.frame == "nonnegative" else geometry.orthonormal_frame
            vertices = build(num_tasks, self.feature_dim, start=self.vertices, generator=generator)
            self.angle = math.pi / 2
        self.vertices = vertices.to(self.vertices)
        self.classes_seen = torch.cat([self.classes_seen, self.classes_seen.new_zeros(more)])
        self.class_counts = [*self.class_counts, *counts]
        self.num_tasks = num_tasks

    def region(self, task: int) -> geometry.Region:
        """Return the size of the region of a task, for the number of classes stated or seen so far.

        Args:
            task: The task, in [0, num_tasks).

        Returns:
            The region.

        Raises:
            ValueError: If the task has no direction, or no class of it was seen.
        """
        task = self._check_task(task)
        count = self.class_counts[task] or int(self.classes_seen[task])
        if count == 0:
            raise ValueError(
                f"task {task} has no class count yet: pass num_classes, or call with a batch first."
            )
        return self._region(count)

    def report(self) -> dict[str, float]:
        """Return measurements of the last step. Only this method always synchronizes the device.

        Returns:
            active_hinge_fraction, the share of pairs of different classes below the threshold; center_norm and
            center_cosine, the norm of the task's center and its cosine to the direction; threshold and target_norm,
            their targets. Empty before the first step; without the entries of terms whose lambda is 0.
        """
        while self._uninspected:
            task, lowest = self._uninspected.popitem()
            if task not in self._inspected:
                self._inspect(lowest, task)
        if self._faults is not None:
            message = self._read_faults()
            if message is not None:
                self._warn_once("faults", message)
        return {name: float(value) for name, value in self._seen.items()}

    def load_report(self, report: Mapping[str, float]) -> None:
        """Restore the measurements that `report` returned, for a run that is resumed.

        Args:
            report: The result of `report`.
        """
        self._seen = dict(report)

    def get_extra_state(self) -> Tensor:
        """Return the settings and the numbers of classes as UTF-8 JSON in a uint8 tensor."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the result of `get_extra_state`.

        Args:
            state: UTF-8 JSON in a uint8 tensor.

        Raises:
            ValueError: If the state belongs to another feature dimension.
        """
        settings = json.loads(bytes(state.tolist()))
        if settings["feature_dim"] != self.feature_dim:
            raise ValueError(
                f"the checkpoint has feature_dim {settings['feature_dim']}, this object {self.feature_dim}."
            )
        for name in _SETTINGS:
            setattr(self, name, settings.get(name, getattr(self, name)))  # an older state has fewer settings

    def extra_repr(self) -> str:
        """Return the settings that differ between users."""
        return (
            f"num_tasks={self.num_tasks}, feature_dim={self.feature_dim}, margin={self.margin}, "
            f"lambda_range={self.lambda_range}, lambda_position={self.lambda_position}, "
            f"lambda_distill={self.lambda_distill}, frame={self.frame!r}, "
            f"position_target={self.position_target!r}, range_form={self.range_form!r}, "
            f"distillation={self.distillation}, lambda_assign={self.lambda_assign}"
        )

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        # The state may have more or fewer tasks than this object was made for.
        vertices = state_dict.get(f"{prefix}vertices")
        if isinstance(vertices, Tensor) and vertices.shape[1:] == self.vertices.shape[1:]:
            self.vertices = self.vertices.new_zeros(vertices.shape)
            self.classes_seen = self.classes_seen.new_zeros(len(vertices))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def _alone(self) -> bool:
        """Whether there is nothing to separate; the other frames prepare for tasks to come."""
        return self.num_tasks == 1 and self.frame in ("auto", "simplex")

    def _region(self, count: int) -> geometry.Region:
        num_tasks = self.num_tasks if self._alone else max(2, self.num_tasks)
        return geometry.region(num_tasks, count, self.margin, angle=self.angle)

    def _choose_frame(self, z: Tensor) -> None:
        """Replace "auto" by the frame that suits the rows; synchronizes the device."""
        z = z.detach()
        total, negative = float(z.square().sum()), float(z.clamp(max=0).square().sum())
        if not 0 < total < math.inf:  # zeros, or not finite: the choice waits for the next batch
            return
        self.frame = "nonnegative" if negative < _NEGATIVE_SHARE * total else "simplex"
        if self.frame == "nonnegative":
            generator = torch.Generator().manual_seed(self.seed)
            vertices, self.angle = _build_frame(self.frame, self.num_tasks, self.feature_dim, generator)
            self.vertices = vertices.to(self.vertices)

    def _unit_rows(self, features: Tensor) -> Tensor:
        """Return unit rows (N, D). With `limit_gradient` their gradient is at most that of features of norm 1."""
        z = kernels.unit(features)
        if not self.limit_gradient:
            return z
        scale = torch.linalg.vector_norm(kernels.promote(features.detach()), dim=1, keepdim=True).clamp(max=1)
        fixed = z.detach()
        limited: Tensor = fixed + scale * (z - fixed)
        return limited

    def _threshold(self, labels: Tensor, task: int) -> tuple[float | Tensor, float | Tensor]:
        """Return threshold k and center norm: numbers if the number of classes is stated, else tensors."""
        count = self.class_counts[task]
        if count is not None:
            known = self._region(count)
            return known.k, known.center_norm
        present = (1 / kernels.class_sizes(labels).float()).sum().round().long()
        seen = torch.maximum(self.classes_seen[task], present)
        if self.training:
            self.classes_seen[task] = seen.detach()
        if self._alone:
            return -1.0, 0.0
        # With C classes 1 - k = C / (C - 1) * radius ** 2, and the radius is the same for all C. Tensors avoid
        # synchronizing the device for the count.
        pair = self._region(2)
        classes = seen.float()
        k = 1 - pair.radius**2 * classes / (classes - 1).clamp(min=1)
        several = seen > 1
        return torch.where(several, k, -1.0), torch.where(several, pair.center_norm, 1.0)

    def _range(self, z: Tensor, labels: Tensor, threshold: float | Tensor) -> Tensor:
        if self.lambda_range == 0 or self._alone:
            return z.sum() * 0.0
        terms = kernels.range_pairs(z, labels, threshold, self.range_form)
        self._seen["threshold"] = threshold.detach() if isinstance(threshold, Tensor) else threshold
        self._seen["active_hinge_fraction"] = terms.active_fraction
        return self.lambda_range * terms.loss

    def _position(self, z: Tensor, labels: Tensor, task: int, norm: float | Tensor) -> Tensor:
        if self.lambda_position == 0 or self._alone or len(z) == 0:
            return z.sum() * 0.0
        mean = kernels.task_center(z, labels)
        vertex = self.vertices[task].to(mean.dtype)
        self._seen["center_norm"] = torch.linalg.vector_norm(mean.detach())
        self._seen["center_cosine"] = kernels.center_cosine(mean.detach(), vertex)
        if self.position_target == "unit":
            self._seen["target_norm"] = 1.0
        else:
            self._seen["target_norm"] = norm.detach() if isinstance(norm, Tensor) else norm
        return self.lambda_position * kernels.position(
            mean, vertex, norm if self.position_target == "scaled" else None
        )

    def _distill(self, z: Tensor, student: Tensor | None, teacher: Tensor | None) -> Tensor:
        total = z.sum() * 0.0
        if student is None or teacher is None or self.lambda_distill == 0:
            return total
        self._check_width("past_features", student)
        self._check_width("previous_features", teacher)
        check_pair(("past_features", "previous_features"), student, teacher, same_width=True)
        for name, weight in self.distillation.items():
            if name == "mse":
                term = kernels.feature_distance(self._unit_rows(student), self._unit_rows(teacher))
            elif name == "ird":
                term = kernels.relation(
                    self._unit_rows(student),
                    self._unit_rows(teacher),
                    self.student_temperature,
                    self.teacher_temperature,
                )
            else:
                assert self.projector is not None
                term = kernels.projected_distance(
                    kernels.promote(student), kernels.promote(teacher), self.projector
                )
            total = total + weight * term
        return self.lambda_distill * total

    def _assign(self, z: Tensor, task: int, past: Tensor | None, past_tasks: Tensor | None) -> Tensor:
        tasks = torch.full((len(z),), task, device=z.device)
        if past is not None and past_tasks is not None:
            self._check_width("past_features", past)
            check_labels(past_tasks, len(past), "past_tasks")
            z = torch.cat([z, self._unit_rows(past)])
            tasks = torch.cat([tasks, past_tasks.to(tasks)])
        term = losses.assignment_loss(z, tasks, self.vertices, temperature=self.assign_temperature)
        return self.lambda_assign * term

    def _remember_classes(self, task: int, count: int) -> None:
        known = self.class_counts[task]
        count = _integer("num_classes", count)
        if count < 1:
            raise ValueError(f"num_classes must be at least 1, got {count}.")
        if known is not None and known != count:
            raise ValueError(
                f"task {task} was said to have {known} classes, now {count}: the number must stay the same, "
                "since the task's region depends on it."
            )
        self.class_counts[task] = count

    def _check_task(self, task: int) -> int:
        task = _integer("task", task)
        if not 0 <= task < self.num_tasks:
            raise ValueError(
                f"task {task} has no direction: there are tasks 0 to {self.num_tasks - 1}; call extend(num_tasks), or "
                "create the criterion with a larger num_tasks."
            )
        return task

    def _check_width(self, name: str, features: Tensor) -> None:
        check_rows(name, features)
        if features.shape[1] != self.feature_dim:
            raise ValueError(
                f"{name} must have shape (N, {self.feature_dim}), got {tuple(features.shape)}: "
                "feature_dim is the width of the encoder's output."
            )

    def _check_features(
        self, z: Tensor, labels: Tensor, student: Tensor | None, teacher: Tensor | None
    ) -> None:
        """Raise an error for NaN and infinite features and warn about collapsed ones, without frequent syncs."""
        faults = [z.new_zeros(())] * 6
        for index, rows in enumerate((z, student, teacher)):
            if rows is not None:
                faults[index] = (~kernels.promote(rows.detach()).sum().isfinite()).to(z.dtype)
        if len(z) > 0:
            # A row of zeros stays one when it is normalized. A few rows are not enough to see a share of them.
            share = (torch.linalg.vector_norm(z.detach(), dim=1) < 0.5).to(z.dtype).mean()
            faults[3] = share if len(z) >= _FEWEST_ROWS else share.floor()
            center = self._seen.get("center_norm")
            if isinstance(center, Tensor):
                faults[4] = (center < _SMALLEST_CENTER).to(z.dtype)
            faults[5] = self._same = self._count_same(z.detach(), labels)
        found = torch.stack(faults)
        if self._faults is not None:
            found = torch.maximum(found, self._faults.to(found))
        self._faults = found
        if torch.compiler.is_compiling():
            return
        self._calls += 1
        if z.device.type in _DEVICES_WITHOUT_SYNC or self._calls % _CHECK_EVERY == 0:
            message = self._read_faults()
            if message is not None:
                raise ValueError(message)

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
        if zeros >= 0.5 or no_center or same >= _SAME_CALLS:
            found = (
                f"{zeros:.0%} of the rows are zero vectors"
                if zeros >= 0.5
                else "the center of the task is 0"
                if no_center
                else f"all classes had the same direction in {_SAME_CALLS} batches in a row"
            )
            self._warn_once(
                "collapse",
                f"The features have collapsed: {found}. Such features get no useful gradient from the terms: lower "
                'the learning rate or lambda_position, or pass frame="nonnegative" for ReLU features.',
            )
        return None

    def _inspect(self, lowest: Tensor, task: int) -> None:
        """Warn if the terms cannot act on features whose smallest entry is `lowest`; synchronizes the device."""
        self._inspected.add(task)
        if self._alone or not float(lowest) >= 0:
            return
        count = self.class_counts[task] or max(1, int(self.classes_seen[task]))
        k = self._region(count).k
        advice = self.advice_for_nonnegative
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
            warnings.warn(message, stacklevel=_caller_level())


_SETTINGS = (
    "num_tasks",
    "feature_dim",
    "margin",
    "lambda_range",
    "lambda_position",
    "lambda_distill",
    "lambda_assign",
    "assign_temperature",
    "frame",
    "position_target",
    "range_form",
    "distillation",
    "student_temperature",
    "teacher_temperature",
    "check_features",
    "limit_gradient",
    "seed",
    "angle",
    "class_counts",
)


def _build_frame(
    frame: Frame, num_tasks: int, dim: int, generator: torch.Generator
) -> tuple[Tensor, float | None]:
    """Return the directions (num_tasks, dim) and their smallest angle; None is the angle of the simplex."""
    if frame == "orthonormal":
        return geometry.orthonormal_frame(num_tasks, dim, generator=generator), math.pi / 2
    if frame == "nonnegative":
        return geometry.nonnegative_frame(num_tasks, dim, generator=generator), math.pi / 2
    vertices = geometry.simplex_etf(num_tasks, dim, generator=generator)
    return vertices, geometry.smallest_angle(vertices) if dim < num_tasks - 1 else None


def _caller_level() -> int:
    """Return the stacklevel, for a caller of this function, of the first frame outside this file and torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__"))
        if module != __name__ and module.partition(".")[0] != "torch":
            break
        frame, level = frame.f_back, level + 1
    return level


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None


def _distillation_weights(distillation: str | Mapping[str, float]) -> dict[str, float]:
    """Return {"mse": 1.0} for "mse" and an empty dict for "none"; zero weights are dropped."""
    if distillation == "none":
        return {}
    weights = {distillation: 1.0} if isinstance(distillation, str) else dict(distillation)
    for name, weight in weights.items():
        check_choice("distillation", name, get_args(Distillation))
        if not weight >= 0:
            raise ValueError(f"the weight of distillation {name!r} must be 0 or more, got {weight}.")
    return {name: float(weight) for name, weight in weights.items() if weight > 0}


def _class_counts(num_classes: int | Sequence[int] | None, num_tasks: int) -> list[int | None]:
    """Return one count per task, None where it is not known yet."""
    if num_classes is None:
        return [None] * num_tasks
    given = list(num_classes) if isinstance(num_classes, Sequence) else [num_classes] * num_tasks
    counts = [_integer("num_classes", count) for count in given]
    if len(counts) != num_tasks or any(count < 1 for count in counts):
        raise ValueError(
            f"num_classes must be one number, or {num_tasks} numbers (one per task), all at least 1, "
            f"got {num_classes}."
        )
    return [*counts]
