"""GPLASC as a criterion for any training loop: features and labels in, named loss terms out."""

import inspect
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from gplasc.criterion.monitor import Monitor
from gplasc.criterion.regions import Frame, Regions
from gplasc.criterion.terms import PLACE_TEMPERATURE, distill, parse_distillation, region_terms
from gplasc.losses import assignment_loss, kernels
from gplasc.losses.checks import check_choice, check_positive, check_tensor
from gplasc.losses.kernels import RangeForm, full_precision
from gplasc.losses.region import PositionTarget


class GPLASC(Regions):
    """Adds three loss terms that place each task in its own region of the unit sphere.

    Each task has a direction, a row of a frame. The terms are returned by name and multiplied by their lambda; add them
    to the loss of the training loop:

    - "range" keeps different classes of the current task at cosine >= k, which limits the size of the region;
    - "position" moves the center of the current task's features to the task's direction;
    - "distill" keeps the features of past samples close to those of the previous model;
    - "assign", if `lambda_assign` is above 0, classifies current and past samples by the cosines with a place for each
      class, see `gplasc.losses.assignment_loss`. It is not in the paper. The places of a task's classes are prepared
      around its direction, so it needs the number of classes of each task, and labels numbered in the order of the
      tasks: with two tasks of two classes 0 and 1, then 2 and 3.

    >>> import torch
    >>> from gplasc.criterion import GPLASC
    >>> from gplasc.losses import supcon, unit_rows
    >>>
    >>> encoder, previous = torch.nn.Linear(20, 16), torch.nn.Linear(20, 16)
    >>> criterion = GPLASC(num_tasks=3, feature_dim=16, num_classes=2)
    >>> x, y, remembered = torch.randn(8, 20), torch.arange(8) % 2 + 2, torch.randn(4, 20)  # of task 1
    >>> features = encoder(x)
    >>> with torch.no_grad():
    ...     teacher = previous(remembered)
    >>> terms = criterion(features, y, 1, past_features=encoder(remembered), previous_features=teacher)
    >>> loss = supcon(unit_rows(features), y, temperature=0.5) + sum(terms.values())
    >>> loss.backward()
    >>> sorted(terms), criterion.report()["acting"][:4]
    (['distill', 'position', 'range'], 'yes:')

    **Batches.** Either split the batch, as here: past and previous features belong to the same views of past samples.
    Or pass one mixed batch and `past`, a mask, which synchronizes a GPU once per step. Features are raw.

    **Number of classes.** The threshold k depends on it. Pass `num_classes` here or at the first call for a task.
    Otherwise it is the largest one in a batch so far; k is then too low until a batch has all classes, never too high.

    **Frames.** "simplex" is the published one; non-negative features (pooled ReLU outputs) cannot reach it.
    "nonnegative" has orthogonal directions with disjoint supports, which they can reach; "orthonormal" is for signed
    features and a number of tasks that is not known. "auto", the default, is "nonnegative" if less than a tenth of the
    squared norm of the first batch comes from negative entries, and "simplex" otherwise; with
    `torch.compile(fullgraph=True)` pass another one. `extend` adds directions to any frame and moves none.

    **Checks.** Features that are NaN or infinite are an error. Features that collapse, are detached or never negative
    in a frame that they cannot reach cause a warning at the line that called the criterion. This is checked at each
    call on the CPU, once in 100 calls on other devices, and in `report()`, in compiled code there alone.

    **State.** `state_dict` holds tensors only, the settings as JSON in a uint8 tensor, so safetensors can store it.
    `load_state_dict` restores all, the number of tasks included; only `feature_dim` and the projector must agree.

    Args:
        num_tasks: The number of tasks to prepare directions for.
        feature_dim: The number of features.
        margin: The share by which the squared radius of a region is reduced, in [0, 1).
        lambda_range: The weight of the range term. The paper has 1.0 for all three weights, see `published`; added to
            cross-entropy they cost accuracy (benchmarks/criterion_safety.py), so the defaults are smaller.
        lambda_position: The weight of the position term.
        lambda_distill: The weight of the distillation term.
        lambda_assign: The weight of the assignment term.
        assign_temperature: The temperature of the assignment term.
        num_classes: The number of classes per task, one number or one per task. Default: see above.
        frame: The arrangement of the directions: "auto", "simplex", "orthonormal" or "nonnegative".
        position_target: "scaled" has the norm that fits k, so that all terms can be 0 together; "unit" is as published.
        range_form: See `form` of `gplasc.losses.range_loss`.
        distillation: "mse" (between unit features), "ird" (relations between past samples), "projector" (raw features
            through an autoencoder, whose parameters belong to this module: add them to the optimizer), "none", or a
            sum such as "mse+ird:0.5" or {"mse": 1.0, "ird": 0.5}.
        limit_gradient: Whether features shorter than 1 receive the gradient of features of norm 1. The terms see unit
            rows, so the gradient of short ones could set all ReLU outputs to 0 for good. False is as published.
        seed: The seed of the orientation of the frame.

    Raises:
        TypeError: If a number that must be an integer is not.
        ValueError: If a value is out of its range or an option is unknown.
    """

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
        assign_temperature: float = PLACE_TEMPERATURE,
        num_classes: int | Sequence[int] | None = None,
        frame: Frame = "auto",
        position_target: PositionTarget = "scaled",
        range_form: RangeForm = "hinge",
        distillation: str | Mapping[str, float] = "mse",
        limit_gradient: bool = True,
        seed: int = 0,
    ) -> None:
        distillations = parse_distillation(distillation)
        super().__init__(
            num_tasks,
            feature_dim,
            margin=margin,
            frame=frame,
            num_classes=num_classes,
            projector="projector" in distillations,
            seed=seed,
        )
        self.lambda_range = lambda_range
        self.lambda_position = lambda_position
        self.lambda_distill = lambda_distill
        self.lambda_assign = lambda_assign
        self.assign_temperature = assign_temperature
        self.position_target: PositionTarget = position_target
        self.range_form: RangeForm = range_form
        self.distillation = distillations
        self.limit_gradient = limit_gradient
        self.monitor = Monitor()
        self._check_settings()

    @classmethod
    def published(cls, num_tasks: int, feature_dim: int, **settings: Any) -> Self:
        """Return the criterion as the paper has it: weights of 1, a simplex, unit targets, no limit on gradients.

        It was made for a contrastive loss next to it; `settings` are further arguments, or replace these.
        """
        paper: dict[str, Any] = {"frame": "simplex", "position_target": "unit", "limit_gradient": False}
        weights = dict.fromkeys(("lambda_range", "lambda_position", "lambda_distill"), 1.0)
        return cls(num_tasks, feature_dim, **{**paper, **weights, **settings})

    stored = (
        *(name for name in inspect.signature(__init__).parameters if name not in ("self", "num_classes")),
        "angle",
        "class_counts",
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
        past_labels: Tensor | None = None,
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
            past_labels: Labels of the past samples, shape (M,): with them they take part in the assignment. Those of
                `past` are in `labels`.

        Returns:
            {"range", "position", "distill"}, and "assign" if its weight is above 0: tensors of shape () multiplied by
            their lambda. A term without rows or pairs is 0 and part of the graph.

        Raises:
            TypeError, ValueError: If an argument has another type or shape, the task has no direction, the assignment
                lacks the number of classes of a task, or features are NaN or infinite.
        """
        task = self.check_task(task)
        check_tensor("features", features, ("N", self.feature_dim))
        check_tensor("labels", labels, (len(features),), "labels")
        if past is not None:
            if past_features is not None or past_labels is not None:
                raise ValueError("past marks rows of features: leave out past_features and past_labels.")
            check_tensor("past", past, (len(features),), "mask")
            previous_features = _rows(previous_features, past)
            if previous_features is not None or self.lambda_assign > 0:
                past_features, past_labels = features[past], labels[past]
            features, labels = features[~past], labels[~past]
        self._check_past(past_features, previous_features, past_labels)
        if num_classes is not None:
            self.remember_classes(task, num_classes)
        with full_precision(features):
            z = kernels.unit(features, limit_gradient=self.limit_gradient)
            weights = {"range": self.lambda_range, "position": self.lambda_position}
            scaled = self.position_target == "scaled"
            terms = dict.fromkeys(("range", "position", "distill"), z.sum() * 0.0)
            form = self.range_form
            terms |= region_terms(z, labels, task, self, self.monitor, weights, form=form, scaled=scaled)
            if past_features is not None and previous_features is not None and self.lambda_distill > 0:
                models, limit = (past_features, previous_features), self.limit_gradient
                loss = distill(*models, self.distillation, self.projector, limit_gradient=limit)
                terms["distill"] = self.lambda_distill * loss
            if self.lambda_assign > 0:
                terms["assign"] = self._assign(z, labels, task, past_features, past_labels)
            self.monitor.check(z, labels, past_features, previous_features, self.class_counts[task])
            self.monitor.follow(terms, features)
            return terms

    def class_places(self, tasks: int) -> Tensor:
        """Return the places of the classes of the first tasks, then the directions of those to come: unit rows (P, D).

        Raises:
            ValueError: If the number of classes of one of the tasks is not known.
        """
        counts = self.class_counts[:tasks]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            unknown = counts.index(None)
            raise ValueError(f"the number of classes of task {unknown} is not known; pass num_classes.")
        return self.places(known)

    def report(self) -> dict[str, Any]:
        """Return measurements of the last step. Only this method always synchronizes the device.

        Returns:
            acting, one line with the size of each term and whether a backward pass brings its gradient to the features;
            frame, the name of the arrangement; and as numbers active_hinge_fraction, the share of pairs of different
            classes below the threshold; center_norm and center_cosine, the norm of the task's center and its cosine to
            the direction; threshold and target_norm, their targets. Numbers of terms with lambda 0 are left out.
        """
        return {"acting": self.monitor.acting(), "frame": self.frame, **self.monitor.report()}

    def extra_repr(self) -> str:
        """Return the settings."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.stored)

    def _check_settings(self) -> None:
        for name in ("margin", *(name for name in self.stored if name.startswith("lambda_"))):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real):
                raise TypeError(f"{name} must be a number, got {value!r}.")
            if not float(value) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {value}.")
        check_choice("frame", self.frame, Frame)
        check_choice("position_target", self.position_target, PositionTarget)
        check_choice("range_form", self.range_form, RangeForm)
        check_positive("assign_temperature", self.assign_temperature)
        no_center = self.num_tasks > 1 and self.size(2).center_norm < 1e-6
        if no_center and self.lambda_position > 0 and self.position_target == "scaled":
            self.monitor.warn_once(
                "origin",
                "With two tasks and margin 0 the regions are half spheres and their centers are the origin, "
                "so the position term does not separate the tasks: choose a margin above 0.",
            )

    def _check_past(self, now: Tensor | None, before: Tensor | None, labels: Tensor | None) -> None:
        if (now is None) != (before is None and labels is None):
            raise ValueError("past_features and previous_features (or past_labels) belong together.")
        if now is None:
            return
        check_tensor("past_features", now, ("M", self.feature_dim))
        if before is not None:
            check_tensor("previous_features", before, (len(now), self.feature_dim))
        if labels is not None:
            check_tensor("past_labels", labels, (len(now),), "labels")

    def _assign(
        self, z: Tensor, labels: Tensor, task: int, past: Tensor | None, past_labels: Tensor | None
    ) -> Tensor:
        if past is not None and past_labels is not None:
            z = torch.cat([z, kernels.unit(past, limit_gradient=self.limit_gradient)])
            labels = torch.cat([labels, past_labels.to(labels)])
        term = assignment_loss(z, labels, self.class_places(task + 1), temperature=self.assign_temperature)
        return self.lambda_assign * term


def _rows(values: Tensor | None, past: Tensor) -> Tensor | None:
    """Return the past rows, if those of all samples were given."""
    return values[past] if isinstance(values, Tensor) and len(values) == len(past) else values
