"""`gplasc.Result`: a complete run; and the runs of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.table import Table
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.results.record import Record, read_record
from gplasc.runs.show import list_runs, run_tables
from gplasc.runs.spec import RunSpec

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from gplasc.models import EncoderBuilder
    from gplasc.runs.restore import Restored
    from gplasc.streams import Stream


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
        import numpy as np

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
        from gplasc.runs.restore import restore

        return restore(self, (method, *plugins), encoder, stream, data_dir, device)

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
