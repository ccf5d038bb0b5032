"""GPLASC for a training loop of your own: criterion, previous encoder, small memory and task in one object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from gplasc._io.files import atomic_path
from gplasc._io.reading import open_regular
from gplasc.criterion import GPLASC
from gplasc.criterion.terms import PLACE_WEIGHT, add_places, gather
from gplasc.errors import UserError
from gplasc.losses.checks import check_tensor
from gplasc.memory import Buffer
from gplasc.memory.balanced import balanced_update
from gplasc.memory.reservoir import offer
from gplasc.models.statistics import evaluating, steady_statistics
from gplasc.random import Generators

_NO_LABELS = torch.empty(0, dtype=torch.int64)


class GPLASCLoop:
    """Computes the terms of GPLASC inside a training loop of your own.

    It is not an `nn.Module`: stored as an attribute of your model it adds nothing to ``model.state_dict()``, so
    checkpoints of the model load into a model without it. Its own state is a flat dict of tensors. Calls out of order,
    values that are not allowed and files or states that do not fit are a UserError.

    >>> import torch
    >>> from gplasc import GPLASC, GPLASCLoop
    >>>
    >>> encoder = torch.nn.Linear(20, 16)
    >>> gplasc = GPLASCLoop(GPLASC(num_tasks=2, feature_dim=16), encoder, memory=20)
    >>> for task in range(2):
    ...     gplasc.begin_task(num_classes=2)
    ...     x, y = torch.randn(8, 20), torch.arange(8) % 2 + 2 * task
    ...     terms = gplasc.terms(x, y, features=encoder(x))  # add them to the loss of each step
    ...     gplasc.end_task()
    >>> sorted(terms), gplasc.tasks_done, len(gplasc.memory)
    (['distill', 'position', 'range'], 2, 16)

    Args:
        criterion: The criterion. If it has parameters (distillation "projector"), add them to your optimizer.
        encoder: Maps a batch of inputs to features of shape (N, feature_dim). Kept by reference.
        memory: The number of samples kept of earlier tasks, as they were passed to `terms`. With 0, distillation
            acts on past samples of your own batches only.
        memory_batch: The number of remembered samples forwarded at each call of `terms`.
        seed: The seed of what is remembered and drawn.

    Attributes:
        task: The current task, or None between two tasks.
        tasks_done: The number of tasks that `end_task` completed.
        memory: The samples of earlier tasks, columns ``x`` and ``y``.
        previous: The encoder as it was after the last task, frozen; None in the first task.
    """

    def __init__(
        self,
        criterion: GPLASC,
        encoder: nn.Module,
        *,
        memory: int = 200,
        memory_batch: int = 32,
        seed: int = 0,
    ) -> None:
        if memory < 0 or memory_batch < 1:
            given = f"memory is {memory} and memory_batch is {memory_batch}"
            raise UserError(f"{given}; memory must be 0 or more, memory_batch 1 or more")
        self.criterion = criterion
        self.encoder = encoder
        self.memory = Buffer(memory)
        self.memory_batch = memory_batch
        self.task: int | None = None
        self.tasks_done = 0
        self.previous: nn.Module | None = None
        self._candidates = Buffer(memory)  # a reservoir of the current task
        self._past_labels = _NO_LABELS
        self._task_labels = _NO_LABELS
        self._random = Generators(seed)

    def begin_task(self, task: int | None = None, *, num_classes: int | None = None) -> None:
        """Begin a task.

        Args:
            task: The number of the task, from 0, which must be the next one. More directions are added to the
                criterion if it has none for the task.
            num_classes: The number of classes of the task; default: counted in the batches.
        """
        if self.task is not None:
            raise UserError(f"task {self.task} is not complete; call end_task() before the next begin_task()")
        if num_classes is not None and num_classes < 1:
            raise UserError(f"num_classes is {num_classes}; a task has 1 class or more")
        if task not in (None, self.tasks_done):
            raise UserError(
                f"task is {task}, but the next one is {self.tasks_done}: tasks are counted from 0; to continue an "
                "earlier training call load() first"
            )
        self.task = self.tasks_done
        if self.task >= self.criterion.num_tasks:
            self.criterion.extend(self.task + 1)
        if num_classes is not None:
            self.criterion.class_counts[self.task] = num_classes

    def terms(self, x: Tensor, y: Tensor, *, features: Tensor | None = None) -> dict[str, Tensor]:
        """Return the named terms for one batch; add them to your loss.

        Rows whose label belongs to an earlier task (samples of a replay memory of your own) count as past samples.
        Forward passes made here do not update the running statistics of BatchNorm.

        Args:
            x: The inputs of the encoder, shape (N, ...).
            y: Labels of shape (N,), numbered over all tasks.
            features: ``encoder(x)`` with its graph, if you have computed it already.

        Returns:
            ``{"range", "position", "distill"}``, with ``lambda_assign`` also ``"assign"``: tensors of shape ().
        """
        if self.task is None:
            raise UserError("no task is open; call begin_task() first")
        check_tensor("y", y, (len(x),), "labels")
        past = torch.isin(y, self._past_labels.to(y.device))
        if features is None:
            features = self._forward(x)
        if torch.is_grad_enabled() and not features.requires_grad:
            self.criterion.monitor.warn_detached()
        held = self._held(x, y, past, features)
        # Labels and candidates are taken on the CPU: there is one synchronization, and the mask above is another.
        rows = {"x": x.detach()[~past].cpu(), "y": y.detach()[~past].cpu()}
        self._task_labels = torch.cat([self._task_labels, rows["y"]]).unique()
        self._check_labels(y)
        if self.memory.capacity:
            offer(self._candidates, rows, self._random["candidates"])
        terms: dict[str, Tensor] = self.criterion(features[~past], y[~past], self.task, **held)
        return terms

    def end_task(self) -> None:
        """Keep a frozen copy of the encoder and a share of the task's samples."""
        if self.task is None:
            raise UserError("no task is open; call begin_task() first")
        self.previous = copy.deepcopy(self.encoder).requires_grad_(False)
        if len(self._candidates):
            labels, generator = self._candidates["y"], self._random["memory"]
            old, new = balanced_update(self.memory, labels, self.tasks_done, generator)
            self.memory.refill(old, self._candidates.rows(new))
        self._past_labels = torch.cat([self._past_labels, self._task_labels]).unique()
        self._task_labels, self._candidates = _NO_LABELS, Buffer(self.memory.capacity)
        self.tasks_done += 1
        self.task = None

    @torch.no_grad()
    def predict(self, x: Tensor, *, scores: Tensor | float = 0.0, weight: float = PLACE_WEIGHT) -> Tensor:
        """Return the most probable class of each input, by the places of the classes and scores of your own.

        The encoder runs in evaluation mode. Train with ``lambda_assign``, so that features are near their places.

        Args:
            x: The inputs of the encoder, shape (N, ...).
            scores: Logits of your classifier for the C classes of the tasks so far, shape (N, C).
            weight: The weight of the log-probabilities of the places, which are added to the scores.

        Returns:
            Labels of shape (N,), numbered over all tasks.
        """
        tasks = self.tasks_done if self.task is None else max(self.tasks_done, self.task + 1)
        if tasks == 0:
            raise UserError("no task was begun; call begin_task() first")
        criterion = self.criterion
        with evaluating(self.encoder):
            features = self.encoder(x)
        places = criterion.class_places(tasks)[: sum(count or 0 for count in criterion.class_counts[:tasks])]
        return add_places(scores, features, places / criterion.assign_temperature, weight).argmax(dim=1)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything but the encoder itself, as a flat dict of tensors, at any moment of a task."""
        task = -1 if self.task is None else self.task
        state = {
            "position": torch.tensor([self.tasks_done, task, self._candidates.seen]),
            "labels.past": self._past_labels,
            "labels.task": self._task_labels,
        }
        parts: dict[str, Mapping[str, Tensor]] = {
            "criterion": self.criterion.state_dict(),
            "memory": self.memory.rows(),
            "candidates": self._candidates.rows(),
            "random": self._random.state_dict(),
            "previous": {} if self.previous is None else self.previous.state_dict(),
        }
        for part, values in parts.items():
            state |= {f"{part}.{name}": value.detach().clone() for name, value in values.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; the encoder is restored separately."""
        try:
            done, task, seen = state["position"].tolist()
            self.criterion.load_state_dict(_part(state, "criterion"))
            self.memory.replace(_part(state, "memory"))
            self._candidates.replace(_part(state, "candidates"))
            self._random.load_state_dict(_part(state, "random"))
            self._past_labels, self._task_labels = state["labels.past"].cpu(), state["labels.task"].cpu()
            self.previous = None
            if before := _part(state, "previous"):
                self.previous = copy.deepcopy(self.encoder).requires_grad_(False)
                self.previous.load_state_dict(before)
        except (KeyError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            given = "the encoder, the criterion and the memory that it was saved with"
            raise UserError(f"the state of GPLASC does not fit ({reason}); pass {given}") from error
        self._candidates.seen = seen
        self.tasks_done, self.task = done, None if task < 0 else task

    def save(self, path: str | Path) -> None:
        """Write the state to a safetensors file."""
        from safetensors.torch import save_file

        state = {name: value.contiguous() for name, value in self.state_dict().items()}
        with atomic_path(path) as temporary:
            save_file(state, temporary)

    def load(self, path: str | Path) -> None:
        """Restore the state from a safetensors file."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            open_regular(path).close()
            state = load_file(path)
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path} cannot be read ({error}); give a file written by save()") from error
        self.load_state_dict(state)

    def _check_labels(self, y: Tensor) -> None:
        """Check that the task has no more labels than classes, and warn if it has none of its own."""
        labels, count = self._task_labels.tolist(), self.criterion.class_counts[self.tasks_done]
        if count is not None and len(labels) > count:
            raise UserError(
                f"task {self.task} has the labels {', '.join(map(str, labels))}, but num_classes says {count}: pass "
                "the number of classes of this task to begin_task(), or leave it out to count them"
            )
        if not labels and len(y):
            self.criterion.monitor.warn_once(
                "labels",
                f"All labels of this batch (from {int(y.min())} to {int(y.max())}) belong to earlier tasks, so its "
                f"rows count as past samples and task {self.task} has none of its own: number labels over all tasks, "
                f"here from {int(self._past_labels.max()) + 1}, not from 0 in each task.",
            )

    def _forward(self, x: Tensor) -> Tensor:
        with steady_statistics(self.encoder):
            features: Tensor = self.encoder(x)
        return features

    def _held(self, x: Tensor, y: Tensor, past: Tensor, features: Tensor) -> dict[str, Tensor]:
        """Return the criterion's arguments about past samples; equal weights give equal features."""
        if self.previous is None:
            return {}
        self.previous.to(features.device).train(self.encoder.training)
        parts: list[tuple[Tensor, Tensor, Tensor, Tensor | slice]] = []
        if past.any():
            parts.append((x, features, y, past))
        if len(self.memory):
            drawn = self.memory.sample(self.memory_batch, self._random["memory"])
            remembered = self.memory["x"].index_select(0, drawn).to(x.device)
            labels = self.memory["y"].index_select(0, drawn).to(y)
            parts.append((remembered, self._forward(remembered), labels, slice(None)))
        if not parts:
            return {}
        with torch.no_grad(), steady_statistics(self.previous):
            before = gather(*((self.previous(inputs), rows) for inputs, *_, rows in parts))
        now = gather(*((now, rows) for _, now, _, rows in parts))
        labels = gather(*((labels, rows) for *_, labels, rows in parts))
        return {"past_features": now, "previous_features": before, "past_labels": labels}


def _part(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
