"""Command ``learn``."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from gplasc.cli._options import Assignments, Names, Scale


@Parameter(name="*", group="New classifier")
@dataclass(frozen=True, kw_only=True)
class _New:
    method: str | None = None
    """Name of a method (see `gplasc list`), or the path of a Python file; default: co2l."""
    plugin: Names = ()
    """Plug-in to add; may be repeated; default: gplasc; none for no plug-in."""
    encoder: str | None = None
    """resnet18, small, gplasc.models.pretrained:efficientnet_lite0, FILE.py:function or package.module:function;
    default: resnet18."""
    frozen: bool = False
    """Do not train the encoder: features are computed once, and learning takes seconds."""
    buffer: int | None = None
    """Number of images in the memory; default: 500."""
    image_size: int | None = None
    """Width and height of the images; default: the encoder's own, or 64."""
    held_out: float | None = None
    """Share of the images that is used for the accuracies instead; default: 0.2."""
    scale: Scale | None = None
    """Preset to use; default: cpu."""
    seed: int | None = None
    """Seed of every random choice; default: 0."""
    set: Assignments = ()
    """A single setting, for example train.lr=0.1; may be repeated."""

    def parameters(self) -> dict[str, Any]:
        """Return what was given as parameters of the classifier."""
        from gplasc.settings.parse import parse_assignments

        names = ("method", "encoder", "buffer", "image_size", "held_out", "scale", "seed")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["plugins"] = tuple(name for name in self.plugin if name != "none") if self.plugin else None
        given["encoder_lr"] = 0.0 if self.frozen else None
        given = {name: value for name, value in given.items() if value is not None}
        return given | parse_assignments(self.set)


def _learn(
    state: Path,
    folder: Path,
    /,
    *,
    new: _New = _New(),
    device: str | None = None,
    skip_corrupt: bool = False,
    discard: bool = False,
    save_every: float = 60.0,
    json: bool = False,
    quiet: bool = False,
) -> int:
    """Create a classifier, or add classes to an existing one.

    The images are in a folder with one folder for each class. Classes may be new or known. Killed at any
    moment, the last state stays usable, and the same command continues.

    For example:

    gplasc learn flowers spring --encoder gplasc.models.pretrained:efficientnet_lite0 --frozen

    gplasc learn flowers summer

    Args:
        state: Folder of the classifier's state; it is created if it is missing.
        folder: Images: FOLDER/CLASS/IMAGE.jpg.
        device: cpu, cuda, mps; default: the accelerator if there is one.
        skip_corrupt: Leave out images that cannot be decoded, and print how many.
        discard: Give up what an earlier call that was cut off had learned of other images.
        save_every: Seconds between two checkpoints.
        json: Print the result of the task as one JSON object.
        quiet: No progress.
    """
    from gplasc.classifier.learning import learn_folder

    record = learn_folder(
        state,
        folder,
        new.parameters(),
        device=device,
        quiet=True if json else quiet,
        skip_corrupt=skip_corrupt,
        discard=discard,
        save_every=save_every,
    )
    print(json_module.dumps(asdict(record)) if json else record)
    return 0
