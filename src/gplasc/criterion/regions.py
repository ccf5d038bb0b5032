"""The prepared regions of the tasks: directions, numbers of classes, and the size that follows from them."""

import json
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from gplasc import geometry
from gplasc.losses import FeatureProjector, kernels

Frame = Literal["auto", "simplex", "orthonormal", "nonnegative"]
"""The arrangement of the tasks' directions."""

_EAGER = "the frame is chosen from the first batch; pass frame to compile the whole graph"
# Features count as non-negative if at most this share of their squared norm comes from negative entries.
_NEGATIVE_SHARE = 0.1
_PLACES_SEED = 2**32  # plus the seed of the frame and the task: the orientation of the classes


class Regions(nn.Module):
    """The directions of the tasks and the sizes of their regions; see `gplasc.criterion.GPLASC` for the arguments.

    `projector` is the module of distillation "projector", or None; its output is a sigmoid unless `signed`.
    """

    vertices: Tensor
    classes_seen: Tensor
    stored: ClassVar[tuple[str, ...]] = (
        "num_tasks", "feature_dim", "margin", "frame", "seed", "angle", "class_counts"
    )  # fmt: skip
    """The attributes that are part of the state."""

    def __init__(
        self,
        num_tasks: int,
        feature_dim: int,
        *,
        margin: float,
        frame: Frame = "simplex",
        num_classes: int | Sequence[int] | None = None,
        projector: bool = False,
        signed: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.num_tasks = _integer("num_tasks", num_tasks)
        self.feature_dim = _integer("feature_dim", feature_dim)
        self.margin = margin
        self.frame: Frame = frame
        self.seed = seed
        self._sizes: dict[tuple[int, int, float, float | None], geometry.Region] = {}
        self._places: tuple[object, Tensor] | None = None
        generator = torch.Generator().manual_seed(seed)
        vertices, self.angle = _build_frame(frame, self.num_tasks, self.feature_dim, generator)
        self.class_counts = _class_counts(num_classes, self.num_tasks)
        self.register_buffer("vertices", vertices.float())
        self.register_buffer("classes_seen", torch.zeros(self.num_tasks, dtype=torch.int64))
        self.projector: FeatureProjector | None = None
        if projector:
            self.projector = FeatureProjector(self.feature_dim, sigmoid=not signed, generator=generator)

    @property
    def alone(self) -> bool:
        """Whether there is nothing to separate; the other frames prepare for tasks to come."""
        return self.num_tasks == 1 and self.frame in ("auto", "simplex")

    def size(self, num_classes: int) -> geometry.Region:
        """Return the size of the region of a task with so many classes."""
        num_tasks = self.num_tasks if self.alone else max(2, self.num_tasks)
        key = (num_tasks, num_classes, self.margin, self.angle)
        if key not in self._sizes:
            self._sizes[key] = geometry.region(num_tasks, num_classes, self.margin, angle=self.angle)
        return self._sizes[key]

    def region(self, task: int) -> geometry.Region:
        """Return the size of the region of a task in [0, num_tasks), for the number of classes stated or seen so far.

        Raises:
            ValueError: If the task has no direction, or no class of it was seen.
        """
        task = self.check_task(task)
        count = self.class_counts[task] or int(self.classes_seen[task])
        if count == 0:
            raise ValueError(f"task {task} has no class count yet: pass num_classes, or a batch first.")
        return self.size(count)

    def places(self, counts: Sequence[int]) -> Tensor:
        """Return the places of the classes of the first tasks, around their vertices, then the other vertices."""
        key = (*counts, self.frame, self.num_tasks, self.vertices.device)
        if self._places is None or self._places[0] != key:  # once a task, not at each step
            inside = []
            for task, count in enumerate(counts):
                generator = torch.Generator().manual_seed(_PLACES_SEED + self.seed + task)
                vertex = self.vertices[task % self.num_tasks]
                inside.append(geometry.class_places(vertex, count, self.size(count), generator=generator))
            places = torch.cat(inside).to(self.vertices)
            self._places = (key, torch.cat([places, self.vertices[len(counts) :]]))
        return self._places[1]

    def extend(self, num_tasks: int, *, num_classes: int | None = None) -> None:
        """Add directions for further tasks. Those of the first tasks do not change.

        The new directions are orthogonal to all others, so a frame has room for about `feature_dim` tasks, and the
        regions of later tasks are slightly smaller. `num_classes` is that of each further task, if it is known.

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
        start = None if self.frame == "auto" else self.vertices  # if "auto", no direction was used yet
        vertices, self.angle = _build_frame(self.frame, num_tasks, self.feature_dim, generator, start)
        self.vertices = vertices.to(self.vertices)
        self.classes_seen = torch.cat([self.classes_seen, self.classes_seen.new_zeros(more)])
        self.class_counts += counts
        self.num_tasks = num_tasks

    def settle_frame(self, z: Tensor) -> None:
        """Replace "auto" by the frame that suits the rows; synchronizes the device, once."""
        if self.num_tasks > 1 and len(z) > 0:
            if torch.compiler.is_compiling():  # a decorator would import torch._dynamo: two seconds
                torch.compiler.disable(self._choose_frame, reason=_EAGER)(z)
            else:
                self._choose_frame(z)

    def _choose_frame(self, z: Tensor) -> None:
        z = z.detach()
        total, negative = float(z.square().sum()), float(z.clamp(max=0).square().sum())
        if not 0 < total < math.inf:  # zeros, or not finite: the choice waits for the next batch
            return
        self.frame = "nonnegative" if negative < _NEGATIVE_SHARE * total else "simplex"
        if self.frame == "nonnegative":
            generator = torch.Generator().manual_seed(self.seed)
            vertices, self.angle = _build_frame(self.frame, self.num_tasks, self.feature_dim, generator)
            self.vertices = vertices.to(self.vertices)

    def threshold(self, labels: Tensor, task: int) -> tuple[float | Tensor, float | Tensor]:
        """Return threshold k and center norm: numbers if the number of classes is stated, else tensors."""
        count = self.class_counts[task]
        if count is not None:
            known = self.size(count)
            return known.k, known.center_norm
        present = (1 / kernels.class_sizes(labels).float()).sum().round().long()
        seen = torch.maximum(self.classes_seen[task], present)
        if self.training:
            self.classes_seen[task] = seen.detach()
        if self.alone:
            return -1.0, 0.0
        # With C classes 1 - k = C / (C - 1) * radius ** 2, and the radius is the same for all C. Tensors avoid
        # synchronizing the device for the count.
        pair = self.size(2)
        classes = seen.float()
        k = 1 - pair.radius**2 * classes / (classes - 1).clamp(min=1)
        several = seen > 1
        return torch.where(several, k, -1.0), torch.where(several, pair.center_norm, 1.0)

    def remember_classes(self, task: int, count: int) -> None:
        """Store the number of classes of a task, which must not change."""
        known, count = self.class_counts[task], _integer("num_classes", count)
        if count < 1:
            raise ValueError(f"num_classes must be at least 1, got {count}.")
        if known is not None and known != count:
            raise ValueError(
                f"task {task} was said to have {known} classes, now {count}: its region needs one number."
            )
        self.class_counts[task] = count

    def check_task(self, task: int) -> int:
        """Return the task as an integer that has a direction."""
        task = _integer("task", task)
        if not 0 <= task < self.num_tasks:
            raise ValueError(
                f"task {task} has no direction: there are tasks 0 to {self.num_tasks - 1}; call extend(num_tasks), or "
                "create the criterion with a larger num_tasks."
            )
        return task

    def get_extra_state(self) -> Tensor:
        """Return the settings and the numbers of classes as UTF-8 JSON in a uint8 tensor."""
        settings = {name: getattr(self, name) for name in self.stored}
        return torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the result of `get_extra_state`, which must have the same feature dimension."""
        settings = json.loads(bytes(state.tolist()))
        if settings["feature_dim"] != self.feature_dim:
            stored = settings["feature_dim"]
            raise ValueError(f"the checkpoint has feature_dim {stored}, this object {self.feature_dim}.")
        self._places = None
        for name in self.stored:
            setattr(self, name, settings.get(name, getattr(self, name)))  # an older state has other settings

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        # The state may have more or fewer tasks than this object was made for.
        vertices = state_dict.get(f"{prefix}vertices")
        if isinstance(vertices, Tensor) and vertices.shape[1:] == self.vertices.shape[1:]:
            self.vertices = self.vertices.new_zeros(vertices.shape)
            self.classes_seen = self.classes_seen.new_zeros(len(vertices))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _integer(name: str, value: Any) -> int:
    """Return an integer; raise an error that names the argument for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None


def _build_frame(
    frame: Frame, num_tasks: int, dim: int, generator: torch.Generator, start: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """Return the directions, those of `start` first, and their smallest angle; None is the angle of the simplex."""
    if frame in ("auto", "simplex") and start is None:
        vertices = geometry.simplex_etf(num_tasks, dim, generator=generator)
        return vertices, geometry.smallest_angle(vertices) if dim < num_tasks - 1 else None
    build = geometry.nonnegative_frame if frame == "nonnegative" else geometry.orthonormal_frame
    return build(num_tasks, dim, start=start, generator=generator), math.pi / 2


def _class_counts(num_classes: int | Sequence[int] | None, num_tasks: int) -> list[int | None]:
    """Return one count per task, None where it is not known yet."""
    if num_classes is None:
        return [None] * num_tasks
    given = list(num_classes) if isinstance(num_classes, Sequence) else [num_classes] * num_tasks
    counts: list[int | None] = [_integer("num_classes", count) for count in given]
    if len(counts) != num_tasks or min(given, default=1) < 1:
        allowed = f"one number, or {num_tasks} numbers (one per task), all at least 1"
        raise ValueError(f"num_classes must be {allowed}, got {num_classes}.")
    return counts
