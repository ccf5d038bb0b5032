"""The commands of the classifier: learn, predict, info, export, features."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from gplasc.errors import UserError

_Names = UseAppendAction[tuple[str, ...]]
_INTERRUPTED = "interrupted and saved; run the same command again to continue"


@dataclass
class Learn:
    """Create a classifier, or teach one more: a folder of images, with one folder for each class.

    Classes may be new or known. Killed at any moment, the last state stays usable, and the same command continues.
    """

    state: Annotated[Positional[Path], arg(metavar="STATE")]
    """Folder of the classifier's state; it is created if it is missing."""
    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Images: FOLDER/CLASS/IMAGE.jpg."""
    method: str | None = None
    """Name of a method (see `gplasc list`), or the path of a Python file; for a new state, default: co2l."""
    plugin: _Names = ()
    """Plug-in to add; may be repeated. For a new state, default: gplasc; none for no plug-in."""
    encoder: str | None = None
    """resnet18, small, gplasc.models.pretrained:efficientnet_lite0, FILE.py:function or package.module:function;
    for a new state, default: resnet18."""
    frozen: bool = False
    """Do not train the encoder: features are computed once, and learning takes seconds."""
    buffer: int | None = None
    """How many images are remembered; for a new state, default: 500."""
    image_size: int | None = None
    """Width and height of the images; for a new state, default: the encoder's own, or 64."""
    held_out: float | None = None
    """Share of the images that is used for the accuracies instead; for a new state, default: 0.2."""
    scale: Literal["paper", "cpu", "smoke"] | None = None
    """Which presets hold; for a new state, default: cpu."""
    seed: int | None = None
    """Seed of every random choice; for a new state, default: 0."""
    set: Annotated[_Names, arg(metavar="NAME=VALUE")] = ()
    """A single setting of a new state, for example train.lr=0.1; may be repeated."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    skip_corrupt: bool = False
    """Leave out images that cannot be decoded, and say how many."""
    discard: bool = False
    """Give up what an earlier call that was cut off had learned of other images."""
    save_every: float = 60.0
    """Seconds between two checkpoints."""
    json: bool = False
    """Print what the task brought as one JSON object."""
    quiet: bool = False
    """No progress."""

    def main(self) -> int:
        """Run the command."""
        from dataclasses import asdict

        from gplasc.classifier.learning import learn_folder
        from gplasc.errors import Interrupted

        try:
            record = learn_folder(
                self.state,
                self.folder,
                self._parameters(),
                device=self.device,
                quiet=True if self.json else self.quiet,
                skip_corrupt=self.skip_corrupt,
                discard=self.discard,
                save_every=self.save_every,
            )
        except Interrupted:
            print(_INTERRUPTED, file=sys.stderr)
            return 130
        print(json.dumps(asdict(record)) if self.json else record)
        return 0

    def _parameters(self) -> dict[str, Any]:
        from gplasc.settings.parse import parse_assignments

        found: dict[str, Any] = {
            "method": self.method,
            "plugins": tuple(name for name in self.plugin if name != "none") if self.plugin else None,
            "encoder": self.encoder,
            "buffer": self.buffer,
            "image_size": self.image_size,
            "held_out": self.held_out,
            "scale": self.scale,
            "seed": self.seed,
            "encoder_lr": 0.0 if self.frozen else None,
        }
        return {name: value for name, value in found.items() if value is not None} | parse_assignments(
            self.set
        )


@dataclass
class Predict:
    """Name the classes of images, with probabilities."""

    state: Annotated[Positional[Path], arg(metavar="STATE")]
    """Folder of the classifier's state."""
    images: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE_OR_FOLDER...")]
    """Image files, or folders of them."""
    top: int = 1
    """How many classes to print for each image, the most probable first."""
    json: bool = False
    """Print one JSON object for each image."""
    csv: bool = False
    """Print comma-separated values."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    skip_corrupt: bool = False
    """Leave out images that cannot be decoded, and say which."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.classifier import ContinualClassifier
        from gplasc.classifier.intake import list_files

        if self.json and self.csv:
            raise UserError("--json and --csv were both given; give one of them")
        if self.top < 1:
            raise UserError(f"--top is {self.top}; give 1 or more")
        if not self.images:
            raise UserError("no image was named; give image files or folders of them")
        files = list_files(self.images)
        classifier = ContinualClassifier.load(self.state, device=self.device, quiet=True)
        rows = classifier.iterate_top(
            files, min(self.top, len(classifier.classes_)), skip_corrupt=self.skip_corrupt
        )
        write = self._write_json if self.json else self._write_csv if self.csv else self._write_lines
        write(_with_bar(rows, len(files)))
        return 0

    def _write_json(self, rows: Iterator[Any]) -> None:
        for file, found in rows:
            classes = [{"class": label, "probability": round(p, 6)} for label, p in found]
            print(json.dumps({"file": str(file), "predictions": classes}), flush=True)

    def _write_csv(self, rows: Iterator[Any]) -> None:
        from gplasc._io.table import csv_text

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["file", "rank", "class", "probability"])
        for file, found in rows:
            name = csv_text(str(file))
            writer.writerows(
                [name, rank, csv_text(label), f"{p:.6f}"] for rank, (label, p) in enumerate(found, 1)
            )

    def _write_lines(self, rows: Iterator[Any]) -> None:
        from gplasc.streams.info import printable

        for file, found in rows:
            classes = "  ".join(f"{printable(str(label))} {100 * p:.1f} %" for label, p in found)
            print(f"{printable(str(file))}  {classes}", flush=True)


@dataclass
class Info:
    """Say what a classifier has learned: classes, tasks, memory, encoder, size, accuracies."""

    state: Annotated[Positional[Path], arg(metavar="STATE")]
    """Folder of the classifier's state."""
    json: bool = False
    """Print one JSON object."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.classifier.info import describe_state, print_state

        if self.json:
            print(json.dumps(describe_state(self.state)))
        else:
            print_state(self.state)
        return 0


@dataclass
class Export:
    """Write a classifier as one file that predicts without gplasc: preprocessing included, class names as metadata."""

    state: Annotated[Positional[Path], arg(metavar="STATE")]
    """Folder of the classifier's state."""
    to: Literal["onnx", "pt2", "safetensors"] = "onnx"
    """onnx: for onnxruntime and others; pt2: torch.export; safetensors: the weights."""
    out: Path | None = None
    """The file to write; default: STATE.onnx and so on, beside the state folder."""

    def main(self) -> int:
        """Run the command."""
        from gplasc.classifier import ContinualClassifier
        from gplasc.classifier.export import export_classifier

        out = self.out or self.state.with_name(f"{self.state.name}.{self.to}")
        classifier = ContinualClassifier.load(self.state, device="cpu", quiet=True)
        print(export_classifier(classifier, self.to, out))
        return 0


@dataclass
class Features:
    """Compute the features of a stream with a frozen encoder, once; learn them with --stream features:FOLDER."""

    stream: str
    """Name of a stream (see `gplasc list`), folder:PATH or npz:PATH."""
    encoder: str
    """FILE.py:function, package.module:function, or the name of a built-in encoder."""
    out: Path
    """Folder for the features."""
    views: int = 4
    """Augmented views of each training image."""
    data_dir: Path | None = None
    """Where data sets are; default: GPLASC_DATA, then the user's cache folder."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    scale: Literal["paper", "cpu", "smoke"] = "cpu"
    """Which presets hold."""
    set: Annotated[_Names, arg(metavar="NAME=VALUE")] = ()
    """A single setting, for example data.image_size=96; may be repeated."""
    quiet: bool = False
    """No progress."""

    def main(self) -> int:
        """Run the command."""
        from gplasc._io.display import display
        from gplasc.learning.devices import check_device
        from gplasc.runs.inputs import write_features
        from gplasc.runs.spec import resolve
        from gplasc.settings.parse import parse_assignments

        settings = {"model.encoder": self.encoder, "model.encoder_lr": 0.0, "model.feature_views": self.views}
        resolved = resolve(
            self.stream, "ncm", scale=self.scale, settings=settings | parse_assignments(self.set)
        )
        shown = display(self.quiet)
        try:
            text = write_features(
                resolved, self.out, data_dir=self.data_dir, device=check_device(self.device), display=shown
            )
        finally:
            shown.close()
        print(text)
        return 0


def _with_bar(rows: Iterator[Any], total: int) -> Iterator[Any]:
    """Show a progress bar on a terminal if there is more than a few."""
    if total < 100 or not sys.stderr.isatty():
        yield from rows
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(rows, "predicting", total=total, console=Console(stderr=True), transient=True)
