"""`gplasc.Result`: a complete run, back to its network and stream; and the runs of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gplasc._io.reading import open_regular
from gplasc._io.table import Table
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.learning import Learner
from gplasc.learning.checkpoints import digest
from gplasc.learning.devices import check_device
from gplasc.learning.evaluator import evaluation_samples
from gplasc.models import EncoderBuilder, Network
from gplasc.results.record import Record, read_record
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.encoder import EncoderChoice, choose_encoder
from gplasc.runs.show import list_runs, run_tables
from gplasc.runs.spec import RunSpec
from gplasc.runs.workspace import WEIGHTS
from gplasc.settings.components import is_file, source_digest
from gplasc.settings.types import Config
from gplasc.streams import Samples, Stream, Task
from gplasc.streams.arrays import as_images

_AGAIN = "run it again with --restart (restart=True in Python)"


@dataclass(frozen=True)
class Restored:
    """A finished run: its record, its stream and its network, in evaluation mode."""

    record: Record
    config: Config
    stream: Stream
    learner: Learner

    @property
    def network(self) -> Network:
        """Encoder and heads as they were after the last task."""
        return self.learner.ctx.network

    @property
    def predictor(self) -> nn.Module:
        """Maps features (N, D) to class scores (N, C), as it was after the last task."""
        assert self.learner.ctx.predictor is not None
        return self.learner.ctx.predictor

    def evaluation_samples(self, task: Task) -> Samples:
        """Return the split of a task that the run was evaluated on."""
        return evaluation_samples(task, self.config)

    def features(self, images: Samples | Any) -> Tensor:
        """Return the encoder's raw features, (N, D) float32 on the CPU.

        Args:
            images: Samples of a task, or uint8 images, N x H x W x C or N x C x H x W, of the size of the stream's.
        """
        if not isinstance(images, Samples):
            x = as_images(images, "images")
            if x.shape[1:] != self.stream.image_shape:
                raise UserError(
                    f"images are {tuple(x.shape[1:])}, those of the stream {self.stream.image_shape}; resize them"
                )
            images = Samples(x, x.new_zeros(len(x), dtype=torch.int64))
        return self.learner.ctx.features(images).cpu()


@dataclass(frozen=True)
class Result:
    """A complete run: its record (see `gplasc.results.record`) and its folder."""

    record: Record
    folder: Path
    _spec: RunSpec | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, folder: str | Path) -> Result:
        """Read a complete run from its folder.

        Raises:
            UserError: If there is none.
        """
        record = read_record(Path(folder))
        if record is None:
            raise UserError(f"there is no complete run in {folder}; `gplasc runs` lists those there are")
        return cls(record, Path(folder))

    @property
    def run_id(self) -> str:
        """The hash of the settings, of the user's own source files and of the data."""
        return self.record.run_id

    @property
    def matrix(self) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """Accuracies in percent by scenario: row t after task t, a column for each task, NaN for tasks to come."""
        return {name: np.array(rows, dtype=float) for name, rows in self.record.matrix.items()}

    def metric(self, name: str = "final_accuracy", scenario: str = "class_il") -> float:
        """Return one metric, class-incremental by default.

        Raises:
            UserError: If there is no such metric or scenario.
        """
        return self.record.metric(name, scenario)

    def to_frame(self) -> Any:
        """Return a data frame of pandas with a line for each task after each: its accuracy in both scenarios.

        Raises:
            UserError: If pandas is not installed.
        """
        tasks = range(len(self.record.stream.test_samples))
        matrix = self.record.matrix
        rows = [
            [after + 1, task + 1, *(matrix[name][after][task] for name in SCENARIOS)]
            for after in tasks
            for task in tasks[: after + 1]
        ]
        return Table("", ["after_task", "task", *SCENARIOS], rows).to_frame()

    def plot(self, scenario: str = "class_il", axes: Any = None) -> Any:
        """Draw the accuracy on each task after each task, and their mean.

        Args:
            scenario: ``"class_il"`` or ``"task_il"``.
            axes: Axes of matplotlib; default: those of a new figure of pyplot.

        Returns:
            The axes.
        """
        if scenario not in self.matrix:
            raise UserError(f"there is no scenario {scenario!r}; allowed: {', '.join(self.matrix)}")
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots()[1]
        matrix = self.matrix[scenario]
        after = range(1, len(matrix) + 1)
        for task, values in enumerate(matrix.T):
            axes.plot(after, values, marker=".", alpha=0.5, label=f"task {task + 1}")
        means = [row[: number + 1].mean() for number, row in enumerate(matrix)]
        axes.plot(after, means, marker="o", color="black", label="mean")
        axes.set(xlabel="after task", ylabel=f"{SCENARIOS[scenario]} accuracy, percent", xticks=after)
        axes.set_title(self._heading.replace("$", r"\$"), wrap=True)
        axes.legend()
        return axes

    def load(
        self,
        *,
        method: str | None = None,
        plugins: Sequence[str] = (),
        encoder: str | nn.Module | EncoderBuilder | None = None,
        stream: Stream | None = None,
        data_dir: str | Path | None = None,
        device: str | None = None,
    ) -> Restored:
        """Load the network, checked bit for bit against the record: ``network``, ``predictor``, ``features(images)``.

        Args:
            method: The file of a method of your own: code that a record names is not loaded unless you name it.
            plugins: The plug-ins as they were given to `gplasc.run`, if one is a file.
            encoder: An encoder of your own, as it was given to `gplasc.run`.
            stream: The stream, if it was an object.
            data_dir: Where data sets are; default: ``GPLASC_DATA``, then the user's cache folder.
            device: ``"cpu"``, ``"cuda"``, ``"mps"``; default: the accelerator if there is one.

        Raises:
            UserError: If a file is missing, damaged, or not the one that the run used.
        """
        choice = None if encoder is None else choose_encoder(encoder)
        spec = None if method or plugins or choice else self._spec
        spec = spec or _planned(self.record, (method, *plugins), choice)
        own, device = choice.encoder if choice else None, check_device(device)
        stream, opened = open_inputs(spec, data_dir, stream=stream, encoder=own, device=device)
        learner = build_learner(spec.config, stream, encoder=opened, device=device)
        learner.ctx.classes_per_task = list(stream.classes_per_task)
        _load_weights(learner, self.folder / WEIGHTS, self.record)
        return Restored(self.record, spec.config, stream, learner)

    @property
    def _heading(self) -> str:
        return f"{self.record.title} on {self.record.stream.name}, seed {self.record.seed}"

    def __repr__(self) -> str:
        numbers = (f"{title} {self.metric(scenario=name):.2f}" for name, title in SCENARIOS.items())
        return f"Result({self._heading}: {', '.join(numbers)}; {self.folder})"

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in run_tables(self.record, self.folder))


def load_runs(folder: str | Path = "runs") -> Any:
    """Return a data frame of pandas with a line for each complete run in (or below) a folder.

    Its columns are the run id, the title, every setting by its dotted name, and metrics as ``class_il.final_accuracy``.

    Raises:
        UserError: If pandas is not installed, or there is no such folder.
    """
    return list_runs([Path(folder)]).to_frame()


def _planned(record: Record, given: Sequence[str | None], encoder: EncoderChoice | None) -> RunSpec:
    """Return what was computed; code is loaded only from files that were given, in the version that the run used."""
    names, wanted = [record.method, *record.plugins], str(record.flat.get("model.encoder", ""))
    named = [*given, *[None] * len(names)][: len(names)]
    code = [  # what the record names, the argument for it, and what was given with its digest
        (name, "plugins" if place else "method", own, source_digest(own) if own and is_file(own) else own)
        for place, (name, own) in enumerate(zip(names, named, strict=True))
        if is_file(name)
    ]
    if ":" in wanted:
        chosen = (encoder.name, encoder.identity) if encoder else (None, None)
        code.append((wanted, "encoder", *chosen))
    for name, argument, own, its_digest in code:
        if own is None:
            raise UserError(
                f"the run used {name}; code that a record names is not loaded unless you name it: load({argument}=...)"
            )
        if its_digest != record.settings.identity.get("encoder" if argument == "encoder" else name):
            raise UserError(
                f"{own} is not what the run used as {name}; give that version: load({argument}=...)"
            )
    names = [str(own) if is_file(name) else name for name, own in zip(names, named, strict=True)]
    return RunSpec.stored(record, names[0], names[1:])


def _load_weights(learner: Learner, path: Path, record: Record) -> None:
    """Load network and predictor, checked bit for bit against the record, and set them to evaluation mode."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        open_regular(path).close()
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"the weights {path} cannot be read ({error}); {_AGAIN}") from None
    ctx = learner.ctx
    # Settings that a module keeps next to its weights are not in the file; the learner has just set them again.
    own = {name: value for name, value in tensors.items() if not name.startswith("predictor.")}
    expected = {name for name, value in ctx.modules.state_dict().items() if isinstance(value, Tensor)}
    predictor = {name.removeprefix("predictor."): value for name, value in tensors.items() if name not in own}
    # Records of version 0.2.0 and before cover the settings of GPLASC too.
    digests = (digest(own), digest(own, extra_state=True))
    if set(own) != expected:
        raise UserError(f"the weights {path} do not belong to the settings of its record; {_AGAIN}")
    if record.weights_sha256 not in digests or digest(predictor) != record.predictor_sha256:
        raise UserError(f"the weights {path} are not those of its record; {_AGAIN}")
    ctx.modules.load_state_dict(own, strict=False)
    ctx.predictor = learner.new_predictor()
    ctx.predictor.load_state_dict(predictor)
    for module in (ctx.modules, ctx.predictor):
        module.eval()
