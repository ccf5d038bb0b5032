"""Learning, editing and measuring a state folder: killed at any moment, it keeps the last state."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gplasc._io.files import write_atomic
from gplasc._io.reading import read_text
from gplasc.classifier._build import check_parameters, plain
from gplasc.classifier._code import moved
from gplasc.classifier._gate import Label, Share, TaskRecord, check_share
from gplasc.classifier._intake import Intake, list_files
from gplasc.classifier._model import Work
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
)
from gplasc.classifier.estimator import ContinualClassifier
from gplasc.errors import UserError
from gplasc.learning import Learner, checkpoints
from gplasc.learning.callbacks.checkpoint import Checkpoint
from gplasc.learning.callbacks.signals import StopSignals
from gplasc.learning.callbacks.terms import FiniteCheck
from gplasc.streams.decode import read_image

_TASK = "task.json"
_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Call:
    """How a state folder is learned or edited, apart from images and the arguments of a new classifier."""

    device: str | None = None
    quiet: bool = False
    allow_code: bool = False
    parent: bool = False
    """Whether the label of a file is the name of its folder."""
    skip_corrupt: bool = False
    min_accuracy: float | None = None
    max_damage: float | None = None
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
    with held(state):
        pending = state / PENDING
        if (state / INDEX).exists():
            _check_unchanged(state, read_state(state).parameters, parameters)
            classifier = call.load(state)
            clean(state)
        else:
            classifier = ContinualClassifier(**{**parameters, "device": call.device, "quiet": call.quiet})
        if call.discard:
            delete_pending(state)
        settings, code = check_parameters(classifier)
        done = len(classifier.tasks_) if (state / INDEX).exists() else 0
        work = _Pending(
            pending, {"task": done, "images": str(folder), "settings": [settings, code]}, call.save_every
        )
        try:
            with work.signals.installed():
                candidate = classifier._candidate(call.intake(folder), work.arguments)
        except UserError:
            if checkpoints.load_newest(pending)[0] is None:  # refused: there is nothing to continue
                delete_pending(state)
            raise
        if candidate is None:
            return None
        record = candidate.tasks[-1] = candidate.tasks[-1].judged(call.min_accuracy, call.max_damage)
        if not call.dry_run:
            classifier._write(state, candidate, keep=call.keep, candidate=bool(record.refused))
        delete_pending(state)
        return record


class _Pending:
    """Checkpoints of a method that trains, and features, in the folder of what is pending."""

    def __init__(self, folder: Path, task: Mapping[str, Any], save_every: float) -> None:
        self._folder, self._task = folder, task
        checkpoint = Checkpoint(folder, every=save_every)
        self.signals = StopSignals(checkpoint.save)
        callbacks = [FiniteCheck(), checkpoint, self.signals]
        self.arguments = Work(callbacks, self._resume, lambda *_: self.signals.stop_if_requested())

    def _resume(self, learner: Learner, digest: str) -> None:
        """Note which task is being learned, and continue it; refuse if another one was cut off."""
        path, task = self._folder / _TASK, {**self._task, "digest": digest}
        try:
            before = json.loads(read_text(path))
        except (UserError, ValueError, RecursionError):
            before = None
        if isinstance(before, dict) and before.get("task") == task["task"]:
            if {**before, "images": ""} != {**plain(task), "images": ""}:
                raise UserError(
                    f"learning {before.get('images')} was cut off; give the same images and settings again, "
                    "or add --discard to give it up"
                )
        else:  # nothing was cut off, or a task that was completed and not yet cleaned up
            checkpoints.delete_all(self._folder)
        write_atomic(path, json.dumps(task, indent=1) + "\n")
        state, _ = checkpoints.load_newest(self._folder)
        try:
            if state is not None:
                learner.load_state_dict(state["learner"])
        except checkpoints.MISFIT as error:
            raise UserError(
                f"the checkpoint in {self._folder} does not fit ({checkpoints.misfit(error)}); "
                "add --discard to give it up"
            ) from error


def _check_unchanged(state: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for name, value in plain(given).items():
        if saved.get(name) != value and saved.get(name) != moved(str(value), ""):
            raise UserError(
                f"{name} is {value!r}, but the classifier in {state} has {saved.get(name)!r}; "
                "leave it out, or begin a new state"
            )


def parse_share(text: str) -> float:
    """Read "50%" or "0.5" as 0.5."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    return check_share(f"{text!r}", value)


# ---- edits -----------------------------------------------------------------------------------------------------------


def edit_folder(
    state: Path, edit: Callable[[ContinualClassifier], object], call: Call, *, erase: bool = False
) -> None:
    """Edit the classifier in a state folder, and write the next state; older ones are deleted first, if they must.

    Raises:
        UserError: If the edit is not allowed; the state is as it was.
    """
    with held(state):
        classifier = call.load(state)
        edit(classifier)
        if erase:
            delete_history(state)
        classifier._write(state, classifier.model, keep=0 if erase else call.keep)


def undo(state: Path) -> TaskRecord:
    """Go back to the state before the last one, and return its last month."""
    with held(state):
        read_state(state)
        return roll_back(state).tasks[-1]


def label_of(classifier: ContinualClassifier, text: str) -> Label:
    """Return the label that a word on the command line names: a number if the labels are."""
    number = not isinstance(classifier.model.labels[0], str) and text.lstrip("-").isdecimal()
    return int(text) if number else text


def forget_class(state: Path, label: str, call: Call) -> None:
    """Remove a class from a state folder, and everything that holds it; say so."""
    older, frozen = len(older_states(state)), read_state(state).kind == "frozen"

    def edit(classifier: ContinualClassifier) -> None:
        classifier.forget(label_of(classifier, label))
        print(
            f"{older} older states and any refused update are deleted, too: they hold {label!r}", flush=True
        )

    edit_folder(state, edit, call, erase=True)
    print(
        f"{label!r} is forgotten{'' if frozen else ' approximately: the network has learned from its images'}"
    )


# ---- prediction and evaluation ---------------------------------------------------------------------------------------


def rank_files(
    state: Path, images: Sequence[Path], call: Call, *, top: int, unknown: bool
) -> tuple[int, Iterator[tuple[Path, list[tuple[Label, float]], bool]]]:
    """Return how many files there are, and each with its most probable classes, and whether it is unknown."""
    if not images:
        raise UserError("no image was named; give image files or folders of them")
    files, classifier = list_files(images), call.load(state)
    classes = classifier.classes_.tolist()

    def ranked() -> Iterator[tuple[Path, list[tuple[Label, float]], bool]]:
        for start in range(0, len(files), _BATCH):  # decoded batch by batch
            read = {}
            for file in files[start : start + _BATCH]:
                try:
                    read[file] = read_image(file)
                except UserError as error:
                    if not call.skip_corrupt:
                        raise
                    warnings.warn(f"left out: {error}", stacklevel=2)
            rows = (
                row
                for p, likeness in classifier.iterate_predictions(read.values())
                for row in zip(p, likeness, strict=True)
            )
            for file, (row, alike) in zip(read, rows, strict=True):
                best = row.argsort()[::-1][:top].tolist()
                yield file, [(classes[n], float(row[n])) for n in best], bool(unknown and alike < 0)

    return len(files), ranked()


def evaluate_folder(state: Path, folder: Path, call: Call) -> dict[str, Any]:
    """Return how many labeled images are right, in all and of each class, and how many are called unknown."""
    classifier, intake = call.load(state), call.intake(folder)
    classes, model = classifier.classes_.tolist(), classifier.model
    items = list(intake.items(model.options.shape, {}, model.labels))
    parts = list(classifier.iterate_predictions([item.x for item in items]))
    best = np.concatenate([probabilities.argmax(1) for probabilities, _ in parts])
    unknown = np.concatenate([likeness < 0 for _, likeness in parts])
    given = np.array([classes.index(item.label) if item.label in classes else -1 for item in items])
    names = list(dict.fromkeys(item.label for item in items))

    def share(right: Any, mask: Any) -> dict[str, Any]:
        return Share(count=int((right & mask).sum()), of=int(mask.sum())).facts()

    known = [name for name in names if name in classes]
    return {
        "images": len(items),
        "accuracy": share(best == given, given >= 0),
        "known_called_unknown": share(unknown, given >= 0),
        "other_called_unknown": share(unknown, given < 0),
        "classes": {str(name): share(best == given, given == classes.index(name)) for name in known},
        "unknown_classes": [name for name in names if name not in classes],
        "notes": intake.notes,
    }
