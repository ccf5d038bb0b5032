"""Command ``features``."""

from __future__ import annotations

from pathlib import Path

from gplasc.cli._options import PLACE, Assignments, Place, Scale


def features_command(
    *,
    stream: str,
    encoder: str,
    out: Path,
    views: int = 4,
    scale: Scale = "cpu",
    set: Assignments = (),
    place: Place = PLACE,
) -> int:
    """Compute the features of a stream with a frozen encoder.

    They are learned with --stream features:FOLDER.

    For example:

    gplasc features --stream folder:images --encoder backbone.py:resnet50 --out features

    gplasc run --stream features:features --method ncm

    Args:
        stream: Name of a stream (see `gplasc list`), folder:PATH or npz:PATH.
        encoder: FILE.py:function, package.module:function, or the name of a built-in encoder.
        out: Folder for the features.
        views: Augmented views of each training image.
        scale: Preset to use.
        set: A single setting, for example data.image_size=96; may be repeated.
    """
    from gplasc._io.display import display
    from gplasc.learning.devices import check_device
    from gplasc.runs.inputs import write_features
    from gplasc.runs.spec import RunRequest
    from gplasc.settings.parse import parse_assignments

    settings = {"model.encoder": encoder, "model.encoder_lr": 0.0, "model.feature_views": views}
    resolved = RunRequest(stream, "ncm", scale=scale, settings=settings | parse_assignments(set)).resolve()
    shown = display(place.quiet)
    try:
        text = write_features(
            resolved, out, data_dir=place.data_dir, device=check_device(place.device), display=shown
        )
    finally:
        shown.close()
    print(text)
    return 0
