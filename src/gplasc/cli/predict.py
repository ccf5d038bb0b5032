"""Command ``predict``."""

from __future__ import annotations

import csv as csv_module
import json as json_module
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gplasc.errors import UserError


def _predict(
    state: Path,
    /,
    *images: Path,
    top: int = 1,
    json: bool = False,
    csv: bool = False,
    device: str | None = None,
    skip_corrupt: bool = False,
) -> int:
    """Print the classes of images, with probabilities.

    For example:

    gplasc predict flowers photo.jpg

    gplasc predict flowers folder --top 3 --csv

    Args:
        state: Folder of the classifier's state.
        images: Image files, or folders of them.
        top: Number of classes to print for each image, the most probable first.
        json: Print one JSON object for each image.
        csv: Print comma-separated values.
        device: cpu, cuda, mps; default: the accelerator if there is one.
        skip_corrupt: Leave out images that cannot be decoded, and list them.
    """
    from rich.console import Console
    from rich.progress import Progress

    from gplasc.classifier import ContinualClassifier
    from gplasc.classifier.intake import list_files

    if json and csv:
        raise UserError("--json and --csv were both given; give one of them")
    if top < 1:
        raise UserError(f"--top is {top}; give 1 or more")
    if not images:
        raise UserError("no image was named; give image files or folders of them")
    files = list_files(images)
    classifier = ContinualClassifier.load(state, device=device, quiet=True)
    rows = classifier.iterate_top(files, min(top, len(classifier.classes_)), skip_corrupt=skip_corrupt)
    write = _write_json if json else _write_csv if csv else _write_lines
    with Progress(
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # predictions that go to a file or a pipe stay there
        disable=len(files) < 100 or not sys.stderr.isatty(),
    ) as bar:
        write(bar.track(rows, len(files), description="predicting"))
    return 0


def _write_json(rows: Iterable[Any]) -> None:
    for file, classes in rows:
        predictions = [{"class": label, "probability": round(p, 6)} for label, p in classes]
        print(json_module.dumps({"file": str(file), "predictions": predictions}), flush=True)


def _write_csv(rows: Iterable[Any]) -> None:
    from gplasc._io.table import csv_text

    writer = csv_module.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["file", "rank", "class", "probability"])
    for file, classes in rows:
        name = csv_text(str(file))
        writer.writerows(
            [name, rank, csv_text(label), f"{p:.6f}"] for rank, (label, p) in enumerate(classes, 1)
        )


def _write_lines(rows: Iterable[Any]) -> None:
    from gplasc._io.text import printable

    for file, classes in rows:
        text = "  ".join(f"{printable(str(label), lines=False)} {100 * p:.1f} %" for label, p in classes)
        print(f"{printable(str(file), lines=False)}  {text}", flush=True)
