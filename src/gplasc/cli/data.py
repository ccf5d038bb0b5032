"""Commands ``data`` and ``features``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Literal

from gplasc.cli._options import Assignments, Place, Scale
from gplasc.errors import UserError


def _data(
    action: Literal["list", "path", "get", "check", "show"],
    name: str = "",
    /,
    *,
    data_dir: Path | None = None,
    out: Path | None = None,
    skip_corrupt: bool = False,
) -> int:
    """Find, download, check or look at data sets.

    For example:
    gplasc data list
    gplasc data get seq-cifar10

    Args:
        action: list: all of them; path: where one is looked for; get: download; check: verify; show: sheet of images.
        name: Name of a stream.
        data_dir: Folder of data sets; default: GPLASC_DATA, then the user's cache folder.
        out: With show: the picture to write.
        skip_corrupt: With check: leave out images that cannot be decoded, and list them.
    """
    from gplasc._io.text import printable
    from gplasc.streams import commands

    if action == "list":
        commands.list_data(data_dir)
        return 0
    if not name:
        raise UserError(f"gplasc data {action} needs the name of a stream; see `gplasc data list`")
    if action == "check":
        return 0 if commands.check_data(name, data_dir, skip_corrupt=skip_corrupt) else 1
    from gplasc.streams import open_stream
    from gplasc.streams.download import download
    from gplasc.streams.preview import draw_preview

    if action == "show":
        paths = [draw_preview(open_stream(name, data_dir=data_dir), out or Path(f"{name}.png"))]
    else:
        paths = download(name, data_dir) if action == "get" else [commands.data_path(name, data_dir)]
    print("\n".join(printable(str(path), lines=False) for path in paths))
    return 0


def _features(
    *,
    stream: str,
    encoder: str,
    out: Path,
    views: int = 4,
    scale: Scale = "cpu",
    set: Assignments = (),
    place: Place = Place(),
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
    from gplasc.runs.build import write_features
    from gplasc.runs.spec import RunRequest
    from gplasc.settings.parse import parse_assignments

    settings = {"model.encoder": encoder, "model.encoder_lr": 0.0, "model.feature_views": views}
    resolved = RunRequest(stream, "ncm", scale=scale, settings=settings | parse_assignments(set)).resolve()
    device = check_device(place.device)
    with closing(display(place.quiet)) as shown:
        print(write_features(resolved, out, data_dir=place.data_dir, device=device, display=shown))
    return 0
