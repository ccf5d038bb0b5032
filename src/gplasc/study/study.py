"""Many runs: compute them, group those that differ in the seed alone, and put their numbers into tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.display import Display
from gplasc._io.table import Column, Table
from gplasc.results.group import Group, Measure, by_measure, measured
from gplasc.results.record import Record, read_record
from gplasc.runs.result import Result
from gplasc.runs.spec import identify_all, settle
from gplasc.runs.workspace import Workspace
from gplasc.study._forecast import forecast
from gplasc.study.cell import Cell, Executor, Outcome
from gplasc.study.compute import compute

if TYPE_CHECKING:
    from gplasc.evaluation.overlap import TaskOverlap
    from gplasc.runs.result import Restored
    from gplasc.streams import Stream
    from gplasc.study.processes import Processes

_DRAWS = 5000  # of the Monte-Carlo integral of an overlap


class Study:
    """Cells and the numbers of their runs, by run id; runs whose numbers are given are not computed."""

    def __init__(
        self,
        cells: Iterable[Cell],
        workspace: Workspace | None = None,
        numbers: Mapping[str, Mapping[Measure, float]] | None = None,
    ) -> None:
        self.workspace = workspace or Workspace(Path("runs"))
        cells = list(cells)
        specs = identify_all([cell.spec for cell in cells], data_dir=self.workspace.data_dir)
        specs = settle(specs, self.workspace.out, self.workspace.device, numbers or {})
        self.cells = tuple(replace(cell, spec=spec) for cell, spec in zip(cells, specs, strict=True))
        self.numbers = {run: dict(own) for run, own in (numbers or {}).items()}
        self.outcomes: dict[str, Outcome] = {}
        self._streams: dict[tuple[object, ...], Stream] = {}

    def __add__(self, other: Study) -> Study:
        """Return a study of the cells of both."""
        both = Study((), self.workspace, self.numbers | other.numbers)
        both.cells = self.cells + other.cells
        both.outcomes = self.outcomes | other.outcomes
        return both

    def compute(self, executor: Executor, display: Display | None = None, *, later: int = 0) -> Study:
        """Compute all runs without numbers, see `compute`, and return the study itself."""
        left = [cell for cell in self.cells if cell.run_id not in self.numbers]
        self.outcomes |= compute(left, self.workspace, executor, display, later=later)
        for record in self.records:
            self.numbers.setdefault(record.run_id, {}).update(measured(record))
        return self

    def load(self) -> Study:
        """Take the numbers of the runs that are complete; nothing is computed."""
        for cell in self.cells:
            if record := read_record(self.workspace.out / cell.run_id):
                self.numbers.setdefault(cell.run_id, {}).update(measured(record))
        return self

    def forecast(self, processes: Processes) -> str:
        """Return how many runs there are, how many are complete, and how long the rest takes; nothing is written."""
        return forecast(self.cells, self.workspace, workers=processes.workers, threads=processes.threads)

    @property
    def records(self) -> list[Record]:
        """The records of the runs that were computed, or complete before."""
        return [outcome.record for outcome in self.outcomes.values() if outcome.record is not None]

    @property
    def failures(self) -> list[Outcome]:
        """How runs ended that failed."""
        return [outcome for outcome in self.outcomes.values() if outcome.state == "failed"]

    def groups(self, **where: str | int | float | None) -> list[Group]:
        """Return the cells with these labels, grouped where they differ in the seed alone; None: without the label."""
        same: dict[tuple[tuple[str, object], ...], list[Cell]] = {}
        for cell in self.cells:
            if all(cell.labels.get(name) == value for name, value in where.items()):
                same.setdefault(tuple(cell.labels.items()), []).append(cell)
        return [self._group(cells) for cells in same.values()]

    def _group(self, cells: Sequence[Cell]) -> Group:
        settings = cells[0].spec.config.flat()
        del settings["seed"]
        outcomes = [self.outcomes[cell.run_id] for cell in cells if cell.run_id in self.outcomes]
        return Group(
            cells[0].labels,
            by_measure((cell.seed, self.numbers.get(cell.run_id, {})) for cell in cells),
            {cell.seed: cell.run_id for cell in cells},
            settings,
            cells[0].bases,
            tuple(outcome.record for outcome in outcomes if outcome.record),
        )

    def pivot(
        self,
        rows: Sequence[str],
        columns: str,
        measure: Measure,
        text: Callable[[Group], str] | None = None,
    ) -> Table:
        """Return a table of the groups.

        Args:
            rows: Labels that name the rows.
            columns: Label with a column for each of its values.
            measure: What is shown.
            text: What a cell says of its group; default: mean and standard deviation over the seeds.
        """
        cells: dict[tuple[Any, ...], dict[Any, str]] = {}
        for group in self.groups():
            place = (group.row if name == "row" else group.labels.get(name) for name in rows)
            row = cells.setdefault(tuple(place), {})
            spread = group.spread(measure)
            row[group.labels.get(columns)] = text(group) if text else str(spread) if spread.count else ""
        heads = list(dict.fromkeys(head for row in cells.values() for head in row))
        return Table(
            measure.label or measure.metric,
            [*(Column(name, "left") for name in rows), *(Column(str(head), "left") for head in heads)],
            [[*names, *(row.get(head) for head in heads)] for names, row in cells.items()],
        )

    def runs_table(self, measures: Sequence[Measure]) -> Table:
        """Return a table with a line for each cell: its labels, seed, run id, numbers and error."""
        labels = list(dict.fromkeys(name for cell in self.cells for name in cell.labels))
        rows = []
        for cell in self.cells:
            numbers, outcome = self.numbers.get(cell.run_id, {}), self.outcomes.get(cell.run_id)
            place = [*(cell.labels.get(name) for name in labels), cell.seed, cell.run_id]
            error = outcome.error if outcome else None
            rows.append([*place, *(numbers.get(measure) for measure in measures), error])
        names = ["_".join(filter(None, (m.metric, m.scenario, m.point))) for m in measures]
        return Table("", [*labels, "seed", "run_id", *names, "error"], rows)

    def to_frame(self) -> Any:
        """Return a data frame of pandas with a line for each cell: its labels, seed, run id, numbers and error.

        Raises:
            UserError: If pandas is not installed.
        """
        measures = dict.fromkeys(measure for own in self.numbers.values() for measure in own)
        return self.runs_table([*measures]).to_frame()

    def complete_cells(self) -> list[Cell]:
        """Return the cells whose run has a record."""
        return [cell for cell in self.cells if self.outcomes[cell.run_id].record is not None]

    def restore(self, cell: Cell) -> Restored:
        """Open a complete run: its network and its stream, which runs of the same stream share."""
        place, key = self.workspace, (cell.spec.config.stream, cell.spec.config.data)
        result = replace(Result.read(place.out / cell.run_id), _spec=cell.spec)
        opened = result.load(stream=self._streams.get(key), data_dir=place.data_dir, device=place.device)
        self._streams[key] = opened.stream
        return opened

    def overlap(self, cell: Cell) -> TaskOverlap:
        """Return the overlap of the tasks of a complete run, measured with the samples that it was evaluated on."""
        import torch

        from gplasc.evaluation.overlap import task_overlap

        opened = self.restore(cell)
        features = [opened.features(opened.evaluation_samples(task)) for task in opened.stream]
        return task_overlap(features, generator=torch.Generator().manual_seed(cell.seed), draws=_DRAWS)
