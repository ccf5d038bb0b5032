"""Learning in a state folder: killed at any moment, it keeps the last state and continues when it is called again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc.classifier.estimator import ContinualClassifier
from gplasc.classifier.model import TaskRecord
from gplasc.classifier.state import INDEX, PENDING, delete_pending, held, read_state, write_state
from gplasc.errors import UserError
from gplasc.learning import Learner, checkpoints
from gplasc.learning.callbacks import Checkpoint, StopSignals

_TASK = "task.json"


def learn_folder(
    state: Path,
    folder: Path,
    parameters: Mapping[str, Any],
    *,
    device: str | None = None,
    quiet: bool = False,
    skip_corrupt: bool = False,
    discard: bool = False,
    save_every: float = 60.0,
) -> TaskRecord:
    """Learn a folder of images, with one folder for each class, and write the next state.

    A call that was cut off continues when it is called again with the same images. Images that were learned last are
    not learned again.

    Args:
        state: The state folder; it is created if it is missing.
        folder: The images.
        parameters: Arguments of `ContinualClassifier` for a new state; for an existing one they must agree with it.
        device: Where to compute; default: the accelerator if there is one.
        quiet: Whether to show nothing.
        skip_corrupt: Whether to leave out images that cannot be decoded.
        discard: Whether to give up what an earlier call that was cut off had learned of other images.
        save_every: Seconds between two checkpoints.

    Returns:
        What the task brought.

    Raises:
        UserError: If something is not allowed; the state is as it was.
        Interrupted: If the process was asked to stop; what was learned so far is kept.
    """
    with held(state):
        pending = state / PENDING
        if (state / INDEX).exists():
            saved = read_state(state)
            _check_unchanged(state, saved.parameters, parameters)
            classifier = ContinualClassifier.load(state, device=device, quiet=quiet)
        else:
            classifier = ContinualClassifier(**{**parameters, "device": device, "quiet": quiet})
            classifier.resolve()  # a wrong name or value is found before images are read
        if discard:
            delete_pending(state)
        data = classifier.read(folder, skip_corrupt=skip_corrupt)
        done = classifier.tasks_ if (state / INDEX).exists() else []
        if done and done[-1].digest == data.digest:
            delete_pending(state)
            return done[-1]
        task = {"task": len(done), "images": str(folder), "digest": data.digest, **_plain(parameters)}
        _enter(pending, task)
        checkpoint = Checkpoint(pending, every=save_every)
        signals = StopSignals(checkpoint.save)

        def resume(learner: Learner) -> None:
            state, _ = checkpoints.load_newest(pending)
            try:
                if state is not None:
                    learner.load_state_dict(state["learner"])
            except checkpoints.MISFIT as error:
                raise UserError(
                    f"the checkpoint in {pending} does not fit ({checkpoints.misfit(error)}); "
                    "add --discard to give it up"
                ) from error

        try:
            with signals.installed():
                record = classifier.learn_images(
                    data, callbacks=[checkpoint, signals], resume=resume, cache=pending
                )
        except UserError:
            if checkpoints.load_newest(pending)[0] is None:  # refused: there is nothing to continue
                delete_pending(state)
            raise
        write_state(state, classifier.parameters, classifier.model)
        return record


def _enter(pending: Path, task: Mapping[str, Any]) -> None:
    """Note which task is being learned; refuse if another one was cut off."""
    path = pending / _TASK
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            before = {}
        if (
            not isinstance(before, dict) or before.get("task") != task["task"]
        ):  # it was completed, and not yet cleaned up
            delete_pending(pending.parent)
        elif before != task:
            raise UserError(
                f"learning {before.get('images')} was cut off; give the same images and settings again to finish it, "
                "or add --discard to give it up"
            )
    write_atomic(path, json.dumps(task, indent=1) + "\n")


def _check_unchanged(state: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for name, value in _plain(given).items():
        if saved.get(name) != value:
            raise UserError(
                f"{name} is {value!r}, but the classifier in {state} has {saved.get(name)!r}; "
                "leave it out, or begin a new state"
            )


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as they look after a round trip through JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(parameters)))
    return plain
