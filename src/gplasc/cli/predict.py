"""Commands ``predict`` and ``evaluate``."""

from __future__ import annotations

import csv as csv_module
import json as json_module
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from gplasc.errors import UserError


def _predict(
    state: Path,
    /,
    *images: Path,
    top: int = 1,
    no_unknown: bool = False,
    json: bool = False,
    csv: bool = False,
    device: str | None = None,
    skip_corrupt: bool = False,
    allow_code: bool = False,
) -> int:
    """Print the classes of images, with probabilities.

    An image that looks like no known class is "unknown".

    For example:

    gplasc predict flowers photo.jpg

    gplasc predict flowers folder --top 3 --csv

    Args:
        state: Folder of the classifier's state.
        images: Image files, or folders of them.
        top: Number of classes to print for each image, the most probable first.
        no_unknown: Always answer with a class.
        json: Print one JSON object for each image.
        csv: Print comma-separated values.
        device: cpu, cuda, mps; default: the accelerator if there is one.
        skip_corrupt: Leave out images that cannot be decoded, and list them.
        allow_code: Run Python code that the state carries.
    """
    from rich.console import Console
    from rich.progress import Progress

    from gplasc.classifier.learning import Call, rank_files

    if json and csv:
        raise UserError("--json and --csv were both given; give one of them")
    if top < 1:
        raise UserError(f"--top is {top}; give 1 or more")
    call = Call(device=device, quiet=True, allow_code=allow_code, skip_corrupt=skip_corrupt)
    count, rows = rank_files(state, images, call, top=top, unknown=not no_unknown)
    write = _write_json if json else _write_csv if csv else _write_lines
    with Progress(
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # predictions that go to a file or a pipe stay there
        disable=count < 100 or not sys.stderr.isatty(),
    ) as bar:
        write(bar.track(rows, count, description="predicting"))
    return 0


def _write_json(rows: Iterable[Any]) -> None:
    for file, classes, unknown in rows:
        predictions = [{"class": label, "probability": round(p, 6)} for label, p in classes]
        print(
            json_module.dumps({"file": str(file), "predictions": predictions, "unknown": unknown}), flush=True
        )


def _write_csv(rows: Iterable[Any]) -> None:
    from gplasc._io.table import csv_text

    writer = csv_module.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["file", "rank", "class", "probability", "unknown"])
    for file, classes, unknown in rows:
        for rank, (label, p) in enumerate(classes, 1):
            writer.writerow([csv_text(str(file)), rank, csv_text(label), f"{p:.6f}", str(unknown).lower()])


def _write_lines(rows: Iterable[Any]) -> None:
    from gplasc._io.text import printable

    for file, classes, unknown in rows:
        text = "  ".join(f"{printable(str(label), lines=False)} {100 * p:.1f} %" for label, p in classes)
        text = f"unknown  (nearest: {text})" if unknown else text
        print(f"{printable(str(file), lines=False)}  {text}", flush=True)


def _evaluate(
    state: Path,
    folder: Path,
    /,
    *,
    labels: Literal["folder", "parent"] = "folder",
    json: bool = False,
    device: str | None = None,
    skip_corrupt: bool = False,
    allow_code: bool = False,
) -> int:
    """Measure the accuracy on labeled images that were not learned.

    For example:

    gplasc evaluate flowers test

    Args:
        state: Folder of the classifier's state.
        folder: Images: FOLDER/CLASS/IMAGE.jpg; or features: an .npz file with x and y.
        labels: The class of an image: the first folder below FOLDER, or the parent folder of the file.
        json: Print one JSON object.
        device: cpu, cuda, mps; default: the accelerator if there is one.
        skip_corrupt: Leave out images that cannot be decoded.
        allow_code: Run Python code that the state carries.
    """
    from gplasc._io.table import Table
    from gplasc.classifier.learning import Call, evaluate_folder

    parent = labels == "parent"
    call = Call(device=device, quiet=True, allow_code=allow_code, parent=parent, skip_corrupt=skip_corrupt)
    facts = evaluate_folder(state, folder, call)
    if json:
        print(json_module.dumps(facts))
        return 0
    rows = [[name, share["text"]] for name, share in facts["classes"].items()]
    Table("", ["class", "accuracy, with its 95 % interval"], rows).print()
    print(f"accuracy: {facts['accuracy']['text']}")
    print(f"images of known classes called unknown: {facts['known_called_unknown']['text']}")
    if facts["unknown_classes"]:
        print(f"images of other classes called unknown: {facts['other_called_unknown']['text']}")
    for note in facts["notes"]:
        print(note)
    return 0
