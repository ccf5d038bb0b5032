"""Learning, editing and measuring a state folder: killed at any moment, it keeps the last state."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gplasc.classifier._build import check_parameters, plain
from gplasc.classifier._code import moved
from gplasc.classifier._gate import Label, Share, TaskRecord, check_share
from gplasc.classifier._intake import Intake, list_files
from gplasc.classifier._model import Model, Work
from gplasc.classifier._state import (
    INDEX,
    PENDING,
    clean,
    delete_history,
    delete_pending,
    held,
    older_states,
    read_state,
    roll_back,
    write_state,
)
from gplasc.classifier.estimator import ContinualClassifier
from gplasc.errors import UserError
from gplasc.learning import Learner, checkpoints
from gplasc.learning.callbacks.checkpoint import Checkpoint
from gplasc.learning.callbacks.signals import StopSignals
from gplasc.learning.callbacks.terms import FiniteCheck
from gplasc.streams.decode import read_image


@dataclass(frozen=True, kw_only=True)
class Call:
    """How a state folder is learned or edited, apart from images and the arguments of a new classifier."""

    device: str | None = None
    quiet: bool = False
    allow_code: bool = False
    parent: bool = False
    """Whether the label of a file is the name of its folder."""
    skip_corrupt: bool = False
    min_accuracy: float | str | None = None
    max_damage: float | str | None = None
    keep: int = 3
    """How many older states are kept."""
    dry_run: bool = False
    discard: bool = False
    """Whether to give up what an earlier call that was cut off had learned of other images."""
    save_every: float = 60.0
    """Seconds between two checkpoints of a method that trains."""

    def load(self, state: Path) -> ContinualClassifier:
        """Load the classifier of a folder."""
        return ContinualClassifier.load(
            state, device=self.device, quiet=self.quiet, allow_code=self.allow_code
        )

    def intake(self, folder: Path) -> Intake:
        """Return the images of a folder."""
        return Intake(folder, parent=self.parent, skip_corrupt=self.skip_corrupt)


def learn_folder(state: Path, folder: Path, parameters: Mapping[str, Any], call: Call) -> TaskRecord | None:
    """Learn a folder of images, or an .npz file of features, and write the next state.

    A call that was cut off continues when it is called again with the same images. The parameters are those of a new
    classifier; for an existing one they must agree with it.

    Returns:
        What the month brought, also if it was refused; None if no image is new.

    Raises:
        UserError: If something is not allowed; the state is as it was.
        Interrupted: If the process was asked to stop; what was learned so far is kept.
    """
    if "reject" in parameters:
        parameters = {**parameters, "reject": check_share("reject", parameters["reject"])}
    with held(state):
        exists, pending = (state / INDEX).exists(), state / PENDING
        if exists:
            _check_unchanged(state, read_state(state).parameters, parameters)
            classifier = call.load(state)
            clean(state)
        else:
            classifier = ContinualClassifier(**{**parameters, "device": call.device, "quiet": call.quiet})
        if call.discard:
            delete_pending(state)
        done = len(classifier.tasks_) if exists else 0
        task = {"task": done, "images": str(folder), "settings": list(check_parameters(classifier))}
        work, limits = _Pending(pending, task, call.save_every), (call.min_accuracy, call.max_damage)
        try:
            with work.signals.installed():
                candidate = classifier._candidate(call.intake(folder), limits, work.arguments)
        except UserError:
            if checkpoints.load_newest(pending)[0] is None:  # refused: there is nothing to continue
                delete_pending(state)
            raise
        if candidate is None:
            return None
        record = candidate.tasks[-1]
        if not call.dry_run:
            write_state(state, candidate, keep=call.keep, candidate=bool(record.refused))
        delete_pending(state)
        return record


class _Pending:
    """Checkpoints of a method that trains, in the folder of what is pending."""

    def __init__(self, folder: Path, task: Mapping[str, Any], save_every: float) -> None:
        self._folder = folder
        self._task = {"images": "", **plain(task)}
        """Which task is being learned; each checkpoint has it as its identity."""
        checkpoint = Checkpoint(folder, every=save_every, identity=self._task)
        self.signals = StopSignals(checkpoint.save)
        callbacks = [FiniteCheck(), checkpoint, self.signals]
        self.arguments = Work(callbacks, self._resume, lambda *_: self.signals.stop_if_requested())

    def _resume(self, learner: Learner, digest: str) -> None:
        """Continue a task that was cut off; refuse if it is another one."""
        self._task["digest"] = digest
        state, _ = checkpoints.load_newest(self._folder)
        try:
            if state is None or state["identity"]["task"] != self._task["task"]:
                checkpoints.delete_all(self._folder)  # of a task that was completed
            elif {**state["identity"], "images": ""} == {**self._task, "images": ""}:
                learner.load_state_dict(state["learner"])
            else:
                raise UserError(
                    f"learning {state['identity']['images']} was cut off; give the same images and settings again, "
                    "or add --discard to give it up"
                )
        except checkpoints.MISFIT as error:
            reason = f"the checkpoint in {self._folder} does not fit ({checkpoints.misfit(error)})"
            raise UserError(f"{reason}; add --discard to give it up") from error


def _check_unchanged(state: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for name, value in plain(moved(given, "")).items():
        if saved.get(name) != value:
            now = f"{name} is {value!r}, but the classifier in {state} has {saved.get(name)!r}"
            raise UserError(f"{now}; leave it out, or begin a new state")


# ---- edits -----------------------------------------------------------------------------------------------------------


def edit_folder(state: Path, old: str, new: str | None, call: Call, *, merge: bool = False) -> Model:
    """Rename a class in a state folder, merge it into another one, or forget it and what holds it (None).

    Raises:
        UserError: If the edit is not allowed; the state is as it was.
    """
    with held(state):
        classifier = call.load(state)
        numbers = isinstance(classifier.model.labels[0], int)

        def label(text: str) -> Label:
            return int(text) if numbers and text.lstrip("-").isdecimal() else text

        model = classifier.model.edited(label(old), None if new is None else label(new), merge=merge)
        if new is None:
            count = len(older_states(state))
            print(
                f"{count} older states and any refused update are deleted, too: they hold {old!r}", flush=True
            )
            delete_history(state)
        write_state(state, model, keep=call.keep if new else 0)
        return model


def undo(state: Path) -> TaskRecord:
    """Go back to the state before the last one, and return its last month."""
    with held(state):
        read_state(state)
        return roll_back(state).tasks[-1]


# ---- prediction and evaluation ---------------------------------------------------------------------------------------


def rank_files(
    state: Path, images: Sequence[Path], call: Call, *, top: int, unknown: bool
) -> tuple[int, Iterator[tuple[Path, list[tuple[Label, float]], bool]]]:
    """Return how many files there are, and each with its most probable classes, and whether it is unknown."""
    if not images:
        raise UserError("no image was named; give image files or folders of them")
    files, classifier = list_files(images), call.load(state)
    classes = classifier.classes_.tolist()
    decoded: list[Path] = []

    def read() -> Iterator[Tensor]:
        for file in files:
            try:
                image = read_image(file)
            except UserError as error:
                if not call.skip_corrupt:
                    raise
                warnings.warn(f"left out: {error}", stacklevel=2)
                continue
            decoded.append(file)
            yield image

    def ranked() -> Iterator[tuple[Path, list[tuple[Label, float]], bool]]:
        parts = classifier.iterate_predictions(read())
        rows = itertools.chain.from_iterable(zip(*part, strict=True) for part in parts)
        for place, (row, likeness) in enumerate(rows):
            best = row.argsort()[::-1][:top].tolist()
            yield decoded[place], [(classes[n], float(row[n])) for n in best], bool(unknown and likeness < 0)

    return len(files), ranked()


def evaluate_folder(state: Path, folder: Path, call: Call) -> dict[str, Any]:
    """Return how many labeled images are right, in all and of each class, and how many are called unknown."""
    classifier, intake = call.load(state), call.intake(folder)
    classes, model = classifier.classes_.tolist(), classifier.model
    labels: list[Label] = []

    def read() -> Iterator[Tensor]:
        for item in intake.items(model.options.shape, {}, model.labels):
            labels.append(item.label)
            yield item.x

    parts = zip(*classifier.iterate_predictions(read()), strict=True)
    probabilities, likeness = (torch.from_numpy(np.concatenate(part)) for part in parts)
    best, unknown = probabilities.argmax(1), likeness < 0
    given = torch.tensor([classes.index(label) if label in classes else -1 for label in labels])
    names = list(dict.fromkeys(labels))
    known = {name: classes.index(name) for name in names if name in classes}
    return {
        "images": len(labels),
        "accuracy": Share.where(best == given, given >= 0).facts(),
        "known_called_unknown": Share.where(unknown, given >= 0).facts(),
        "other_called_unknown": Share.where(unknown, given < 0).facts(),
        "classes": {str(name): Share.where(best == given, given == n).facts() for name, n in known.items()},
        "unknown_classes": [name for name in names if name not in known],
        "notes": intake.notes,
    }
