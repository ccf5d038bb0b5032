"""The result of a fair comparison as plain data: settings, numbers by seed and run ids; the rest is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.paper.fair.plan import Protocol
from gplasc.results.group import Measure
from gplasc.results.statistics import Difference, paired_difference
from gplasc.settings.types import Settings

MEASURES = {
    "class_il": Measure("final_accuracy", "class-IL", scenario="class_il"),
    "task_il": Measure("final_accuracy", "task-IL", scenario="task_il"),
    "forgetting": Measure("forgetting", "forgetting, class-IL", scenario="class_il"),
    "overlap": Measure("overlap", "overlap of two tasks", point="mean"),
}
"""What is kept of every run, by the name it has in the file; the overlap only where it was measured."""

Numbers = dict[str, dict[int, float]]
"""Values of each measure by seed."""


class TrialResult(Settings):
    """A trial: its values of what is searched, and class-IL on the validation split by tuning seed."""

    values: dict[str, Any]
    validation: dict[int, float]
    runs: dict[int, str]

    @property
    def score(self) -> float | None:
        """Mean over the tuning seeds; None if a run failed, or none was needed."""
        complete = self.validation and len(self.validation) == len(self.runs)
        return sum(self.validation.values()) / len(self.validation) if complete else None


def choose(trials: Sequence[TrialResult]) -> int | None:
    """Return the number of the trial with the best mean class-IL on validation; of equal ones the first.

    None if no trial was completed with all tuning seeds.
    """
    scores = [(-trial.score, number) for number, trial in enumerate(trials) if trial.score is not None]
    return min(scores)[1] if scores else None


class _Measured(Settings):
    """Numbers of a row on the test split."""

    row: str
    base: str | None
    stream: str
    buffer: int | None
    metrics: Numbers
    runs: dict[int, str]

    @property
    def place(self) -> tuple[object, ...]:
        """What a row and its base have in common."""
        return (self.stream, self.buffer)


class RowResult(_Measured):
    """A tuned row: what was tried, what was chosen, and its numbers on the test split."""

    method: str
    plugins: tuple[str, ...]
    measured_on: str
    searched: dict[str, tuple[Any, ...]]
    trials: tuple[TrialResult, ...]
    settings: dict[str, Any]
    """Everything that was set for the runs on test, but the seed."""

    @property
    def chosen(self) -> int | None:
        """Number of the chosen trial; 0 is the preset, also where nothing was tuned. None: no trial was completed."""
        return choose(self.trials) if any(trial.runs for trial in self.trials) else 0

    @property
    def shown_buffer(self) -> int:
        """The buffer that was asked for, or that of the preset."""
        return int(self.settings["buffer"]) if self.buffer is None else self.buffer


class TemperatureResult(_Measured):
    """A row at a temperature, with all else at the preset."""

    temperature: float

    @property
    def place(self) -> tuple[object, ...]:
        """What a row and its base have in common."""
        return (self.stream, self.buffer, self.temperature)


class FairSummary(Settings):
    """A fair comparison."""

    format: Literal[2] = 2
    title: str
    statement: str
    command: str
    code: dict[str, tuple[str, ...]]
    """Versions and commits of the code that computed the runs."""
    protocol: Protocol
    rows: tuple[RowResult, ...]
    temperatures: tuple[TemperatureResult, ...]

    @property
    def evaluated_on(self) -> str:
        """The split that the final runs were evaluated on: test, or validation in a search where nothing is tuned."""
        return str(self.rows[0].settings["data.evaluate_on"]) if self.rows else "test"

    def difference(self, ours: _Measured, measure: str = "class_il") -> Difference | None:
        """Return the paired difference of a row to its base; None without a base or without pairs."""
        everything: Sequence[_Measured] = (
            self.temperatures if isinstance(ours, TemperatureResult) else self.rows
        )
        for base in everything:
            if base.row == ours.base and base.place == ours.place:
                difference = paired_difference(base.metrics.get(measure, {}), ours.metrics.get(measure, {}))
                return difference if difference.count else None
        return None

    def records(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each run, by run id, in the form of its record."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.rows:
            for trial in row.trials:
                for seed, value in trial.validation.items():
                    found[trial.runs[seed]] = _record("validation", {"class_il": value})
        for measured in (*self.rows, *self.temperatures):
            for seed, run in measured.runs.items():
                values = {
                    name: by_seed[seed] for name, by_seed in measured.metrics.items() if seed in by_seed
                }
                found[run] = _record(self.evaluated_on, values)
        return found

    def write(self, path: Path) -> Path:
        """Write the summary as JSON."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
        return write_atomic(path, text + "\n")


def read_summary(path: Path) -> FairSummary:
    """Read a summary.

    Raises:
        UserError: If the file does not exist or is none.
    """
    try:
        return FairSummary.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except ValidationError as error:
        problem = error.errors()[0]
        what = ": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"])))
        raise UserError(
            f"{path} is not the summary of a fair comparison ({what}); name a file that "
            "gplasc reproduce NAME --fair --summary FILE wrote, or a new one"
        ) from None


def _record(evaluated_on: str, values: Mapping[str, float]) -> dict[str, Any]:
    """Return a record with the metrics of a run and what they were measured on; the inverse of `numbers_of`."""
    metrics: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        measure = MEASURES[name]
        if measure.scenario is not None:
            metrics.setdefault(measure.scenario, {})[measure.metric] = value
    settings = {"data": {"evaluate_on": evaluated_on}}
    return {"settings": settings, "metrics": metrics, "overlap": values.get("overlap")}


def numbers_of(record: Mapping[str, Any], overlap: float | None) -> dict[str, float]:
    """Return what is kept of a run."""
    found = {
        name: round(float(record["metrics"][measure.scenario][measure.metric]), 4)
        for name, measure in MEASURES.items()
        if measure.scenario is not None
    }
    return found if overlap is None else {**found, "overlap": round(overlap, 4)}
