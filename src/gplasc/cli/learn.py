"""Commands ``learn``, ``forget``, ``rename``, ``merge`` and ``rollback``."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from gplasc.cli._options import Assignments, Names, Scale


@Parameter(name="*", group="New classifier")
@dataclass(frozen=True, kw_only=True)
class _New:
    method: str | None = None
    """auto: the best of three heads on a frozen encoder; logistic, slda or ncm: this head; or a method that trains
    (see `gplasc list`), or the path of a Python file; default: auto."""
    plugin: Names = ()
    """Plug-in for a method that trains; may be repeated; none for no plug-in."""
    encoder: str | None = None
    """auto: a pretrained one; resnet18, small: trained from scratch; FILE.py:function or package.module:function."""
    frozen: bool = False
    """Do not train the encoder, but an adapter on its features; with the pretrained one this is the default."""
    buffer: int | None = None
    """Number of images in the memory of a method that trains; default: 500."""
    image_size: int | None = None
    """Width and height of the images; default: the encoder's own."""
    held_out: float | None = None
    """Share of the images that a method that trains does not learn, for the accuracies; default: 0.2."""
    keep_features: int | None = None
    """Number of images of each class whose features are kept; default: all; 0: only sums."""
    reject: str | None = None
    """Share of known images that may be called unknown; default: 5%."""
    no_thumbnails: bool = False
    """Keep no small pictures for the page."""
    scale: Scale | None = None
    """Preset of a method that trains; default: cpu."""
    seed: int | None = None
    """Seed of every random choice; default: 0."""
    set: Assignments = ()
    """A single setting, for example train.lr=0.1; may be repeated."""

    def parameters(self) -> dict[str, Any]:
        """Return what was given as parameters of the classifier."""
        from gplasc.settings.parse import parse_assignments

        given: dict[str, Any] = {**vars(self)}
        plugins, assignments = given.pop("plugin"), given.pop("set")
        given["plugins"] = tuple(name for name in plugins if name != "none") if plugins else None
        given["encoder_lr"] = 0.0 if given.pop("frozen") else None
        given["thumbnails"] = False if given.pop("no_thumbnails") else None
        given = {name: value for name, value in given.items() if value is not None}
        return given | parse_assignments(assignments)


@Parameter(name="*", group="Limits")
@dataclass(frozen=True, kw_only=True)
class _Limits:
    min_accuracy: str | None = None
    """Refuse the update if the accuracy on its images is lower, for example 50%."""
    max_damage: str | None = None
    """Refuse it if more earlier images than this change from right to another earlier class, for example 10%."""
    dry_run: bool = False
    """Only report what the update would bring."""


def _learn(
    state: Path,
    folder: Path,
    /,
    *,
    new: _New = _New(),
    limit: _Limits = _Limits(),
    labels: Literal["folder", "parent"] = "folder",
    keep: int = 3,
    device: str | None = None,
    skip_corrupt: bool = False,
    allow_code: bool = False,
    discard: bool = False,
    save_every: float = 60.0,
    json: bool = False,
    quiet: bool = False,
) -> int:
    """Create a classifier, or teach an existing one new images.

    Images become features of a pretrained encoder, and a head is fitted to the features of all months. Images
    that were learned already are left out. Killed at any moment, the last state stays usable. The exit code is 3
    if the update was refused.

    For example:

    gplasc learn flowers spring

    gplasc learn flowers summer --min-accuracy 50% --max-damage 10%

    Args:
        state: Folder of the classifier's state; it is created if it is missing.
        folder: Images: FOLDER/CLASS/IMAGE.jpg; or features: an .npz file with x and y.
        labels: The class of an image: the first folder below FOLDER, or the parent folder of the file.
        keep: Number of older states to keep for `gplasc rollback`.
        device: cpu, cuda, mps; default: the accelerator if there is one.
        skip_corrupt: Leave out images that cannot be decoded, and print how many.
        allow_code: Run Python code that the state carries.
        discard: Give up what an earlier call of a method that trains had learned of other images.
        save_every: Seconds between two checkpoints of a method that trains.
        json: Print the result as one JSON object.
        quiet: No progress.
    """
    from gplasc.classifier.learning import Call, learn_folder

    call = Call(
        device=device,
        quiet=json or quiet,
        allow_code=allow_code,
        parent=labels == "parent",
        skip_corrupt=skip_corrupt,
        min_accuracy=limit.min_accuracy,
        max_damage=limit.max_damage,
        keep=keep,
        dry_run=limit.dry_run,
        discard=discard,
        save_every=save_every,
    )
    record = learn_folder(state, folder, new.parameters(), call)
    if record is None:
        print(json_module.dumps({"images": 0}) if json else "nothing is new: every image was learned already")
        return 0
    print(json_module.dumps(record.facts()) if json else record)
    if limit.dry_run and not json:
        print("dry run: nothing was changed")
    return 3 if record.refused else 0


def _forget(state: Path, label: str, /, *, allow_code: bool = False) -> int:
    """Remove a class, as if it had never been learned.

    Features, thumbnails and digests of its images are deleted.

    The states that are kept for `gplasc rollback` and a refused update are deleted, too: they hold the class.
    Exact for heads on a frozen encoder; of a method that trains, what the network learned stays.

    For example:

    gplasc forget flowers tulip

    Args:
        state: Folder of the classifier's state.
        label: The class.
        allow_code: Run Python code that the state carries.
    """
    from gplasc.classifier.learning import Call, edit_folder

    model = edit_folder(state, label, None, Call(quiet=True, allow_code=allow_code))
    how = "" if model.kind == "frozen" else " approximately: the network has learned from its images"
    print(f"{label!r} is forgotten{how}")
    return 0


def _rename(state: Path, old: str, new: str, /, *, allow_code: bool = False) -> int:
    """Give a class another name.

    For example:

    gplasc rename flowers tulip tulipa

    Args:
        state: Folder of the classifier's state.
        old: The class.
        new: Its new name.
        allow_code: Run Python code that the state carries.
    """
    from gplasc.classifier.learning import Call, edit_folder

    edit_folder(state, old, new, Call(quiet=True, allow_code=allow_code))
    print(f"{old!r} is {new!r} now")
    return 0


def _merge(state: Path, one: str, other: str, /, *, allow_code: bool = False) -> int:
    """Make a class part of another one, as if they had always been one.

    For example:

    gplasc merge flowers tulip tulipa

    Args:
        state: Folder of the classifier's state.
        one: The class that stays.
        other: The class whose images it gets.
        allow_code: Run Python code that the state carries.
    """
    from gplasc.classifier.learning import Call, edit_folder

    edit_folder(state, other, one, Call(quiet=True, allow_code=allow_code), merge=True)
    print(f"{other!r} is part of {one!r} now")
    return 0


def _rollback(state: Path, /) -> int:
    """Go back to the state before the last change.

    For example:

    gplasc rollback flowers

    Args:
        state: Folder of the classifier's state.
    """
    from gplasc.classifier.learning import undo

    print(f"back to the state after this month:\n{undo(state)}")
    return 0
