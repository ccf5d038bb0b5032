"""The results of a comparison as a JSON file: settings, numbers by seed and run ids; the rest is computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from gplasc._io.files import write_atomic
from gplasc._io.reading import read_bytes
from gplasc.errors import UserError
from gplasc.results.group import CLASS_IL, Group, Measure
from gplasc.settings.types import Settings
from gplasc.study.experiment import Caption
from gplasc.study.plan import ComparePlan

OVERLAP = Measure("overlap", "overlap of two tasks", point="mean")
_MEASURES = {
    "class_il": CLASS_IL,
    "task_il": Measure("final_accuracy", "task-IL", scenario="task_il"),
    "forgetting": Measure("forgetting", "forgetting, class-IL", scenario="class_il"),
    "overlap": OVERLAP,
}
"""What is kept of every run, by the name it has in the file; the overlap only where it was measured."""

_Label = str | int | float


class _Numbers(Settings):
    """A group as the file has it. The settings of a trial are what is searched, those of a test run are complete."""

    labels: dict[str, _Label]
    bases: tuple[str, ...] = ()
    settings: dict[str, Any]
    runs: dict[int, str]
    values: dict[str, dict[int, float]]


class _Searched(Settings):
    labels: dict[str, _Label]
    values: dict[str, tuple[Any, ...]]


class Results(Settings):
    """A comparison: what was planned, and the numbers of its runs.

    The label ``stage`` of a group is "tuning" (with a ``trial``), "bases" (the runs on validation that choose between
    two bases) or "test".
    """

    format: Literal[3] = 3
    caption: Caption
    command: str
    code: dict[str, tuple[str, ...]]
    """Versions and commits of the code that computed the runs."""
    plan: ComparePlan
    searched: tuple[_Searched, ...]
    numbers: tuple[_Numbers, ...]

    @classmethod
    def of(cls, groups: Iterable[Group], searched: Iterable[tuple[Any, Any]], **about: Any) -> Results:
        """Keep what is stored of groups and, by labels, of the values that were searched for each row."""
        kept = ("labels", "bases", "settings", "runs")
        numbers = tuple(
            {name: getattr(group, name) for name in kept}
            | {"values": {name: group.values[m] for name, m in _MEASURES.items() if group.by_seed(m)}}
            for group in groups
        )
        axes = tuple({"labels": labels, "values": values} for labels, values in searched)
        return cls(searched=axes, numbers=numbers, **about)

    def groups(self, **where: _Label | None) -> list[Group]:
        """Return the groups with these labels; None selects those without the label."""
        chosen = [n for n in self.numbers if all(n.labels.get(k) == v for k, v in where.items())]
        return [
            Group(n.labels, {_MEASURES[m]: v for m, v in n.values.items()}, n.runs, n.settings, n.bases)
            for n in chosen
        ]

    @property
    def measures(self) -> list[Measure]:
        """What the runs on test have numbers of."""
        tests = self.groups(stage="test")
        return [m for m in _MEASURES.values() if m != OVERLAP or any(g.by_seed(m) for g in tests)]

    @property
    def evaluated_on(self) -> str:
        """The split that the final runs were evaluated on: test, or validation in a search where nothing is tuned."""
        return next((str(g.settings["data.evaluate_on"]) for g in self.groups(stage="test")), "test")

    @property
    def protocol(self) -> str:
        """How the numbers were made."""
        plan = self.plan
        seeds, tune_seeds = (", ".join(map(str, some)) for some in (plan.seeds, plan.tune_seeds))
        if not plan.tunes:
            return (
                "Nothing was tuned: every row has the preset, changed only by what its name and the command say. "
                f"Seeds {seeds}, evaluated on {self.evaluated_on}."
            )
        budget = f"; trials with {', '.join(plan.tune_set)}" if plan.tune_set else ""
        return (
            f"Each row was tuned with {plan.trials} trials (the preset and {plan.trials - 1} more) on a validation "
            f"split of {plan.validation:.0%} of the training samples (seed {tune_seeds}{budget}); the best mean "
            f"class-IL was then trained on all training samples with the fresh seeds {seeds} and evaluated on test."
        )

    def trials(self, row: Group) -> list[Group]:
        """Return the trials of a row, in their order."""
        return self.groups(**{**row.labels, "stage": "tuning", "buffer": row.labels.get("buffer")})

    def chosen(self, row: Group) -> int | None:
        """Return the number of the chosen trial of a row; 0 is the preset, also where nothing was tuned."""
        return choose(self.trials(row)) if self.plan.tunes else 0

    def by_run(self) -> dict[str, dict[Measure, float]]:
        """Return the numbers of each run, by run id."""
        numbers: dict[str, dict[Measure, float]] = {}
        for group in self.groups():
            for measure, by_seed in group.values.items():
                for seed, value in by_seed.items():
                    numbers.setdefault(group.runs[seed], {})[measure] = value
        return numbers

    def write(self, path: Path) -> Path:
        """Write the results as JSON."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
        return write_atomic(path, text + "\n")


def read_results(path: Path) -> Results:
    """Read the results of a comparison."""
    try:
        return Results.model_validate_json(read_bytes(path))
    except ValidationError as error:
        problem = error.errors()[0]
        what = ": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"])))
        raise UserError(
            f"{path} is not the summary of a comparison ({what}); name a file that the option --summary of "
            "gplasc compare wrote, or a new one"
        ) from None


def choose(trials: Sequence[Group]) -> int | None:
    """Return the number of the first trial with the best mean class-IL; None if none was completed with all seeds."""
    means = [(-trial.spread(CLASS_IL).mean, n) for n, trial in enumerate(trials) if not trial.missing]
    return min(means)[1] if means else None
