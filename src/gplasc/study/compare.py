"""Compare methods with and without plug-ins: tune all rows alike on validation, choose, compute on test, tabulate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.results.group import Group
from gplasc.results.record import Record
from gplasc.runs.workspace import Workspace
from gplasc.settings.components import is_file, section_names
from gplasc.settings.parse import parse_assignments
from gplasc.settings.types import Config
from gplasc.streams import find_stream
from gplasc.study.cell import Cell, Executor
from gplasc.study.compute import print_failures
from gplasc.study.experiment import Caption, Experiment, Row, scale_statement
from gplasc.study.overlap import mean_overlap
from gplasc.study.plan import ComparePlan
from gplasc.study.points import Axes, axes_of, balanced_points, different_points, fair_space, with_epochs
from gplasc.study.processes import Processes
from gplasc.study.search import on_validation
from gplasc.study.space import given_space
from gplasc.study.stored import OVERLAP, Results, choose
from gplasc.study.study import Study
from gplasc.study.tables import comparison_tables


@dataclass(frozen=True)
class Contender:
    """A row on a stream with a buffer, with what is searched for it.

    trials: What is set in each trial; nothing in the first one, which has the preset.
    """

    experiment: Experiment
    row: Row
    stream: str
    buffer: int | None
    preset: Config
    searched: Axes = field(default_factory=dict)
    trials: tuple[Mapping[str, Any], ...] = ({},)

    @property
    def labels(self) -> dict[str, str | int]:
        """Its place in the tables."""
        buffer = {} if self.buffer is None else {"buffer": self.buffer}
        return {"row": self.row.name, "stream": self.stream, **buffer}

    @property
    def temperature(self) -> str | None:
        """The full name of the method's temperature; None if it has none, or the row sets it."""
        name = f"{next(iter(self.preset.options))}.temperature"
        return name if name in self.preset.flat() and name not in _set_names(self.row, self.preset) else None

    def trial_cells(self, plan: ComparePlan) -> list[Cell]:
        """Return the runs of the trials, evaluated on a share of the training samples."""
        cheaper = parse_assignments(plan.tune_set)
        cells = []
        for number, trial in enumerate(self.trials):
            wanted = {**self.row.settings, **trial, **cheaper, "data.validation": plan.validation}
            settings = on_validation({"settings": wanted})["settings"]
            cells += [self._cell("tuning", seed, settings, trial=number) for seed in plan.tune_seeds]
        return cells

    def test_cells(self, plan: ComparePlan, trial: int) -> list[Cell]:
        """Return the runs on test with the settings of a trial."""
        return [self._cell("test", seed, self.trials[trial]) for seed in plan.seeds]

    def temperature_cells(self, plan: ComparePlan) -> list[Cell]:
        """Return the runs at each temperature, all else at the preset."""
        return [
            self._cell("temperature", seed, {self.temperature: temperature}, temperature=temperature)
            for temperature in plan.temperatures
            if self.temperature is not None
            for seed in plan.seeds
        ]

    def _cell(self, stage: str, seed: int, settings: Mapping[str, Any], **labels: float) -> Cell:
        row = self.row.with_settings(settings)
        cell = self.experiment.cell(row, self.stream, self.buffer, seed, self.preset.scale)
        return replace(cell, labels={"stage": stage, **self.labels, **labels})


def compare_rows(
    plan: ComparePlan,
    experiment: Experiment,
    workspace: Workspace,
    open_executor: Callable[[], Executor],
    *,
    earlier: Results | None = None,
    overlap: bool = False,
    display: Display | None = None,
) -> tuple[Study, Results]:
    """Tune all rows on validation, choose, and compute the chosen settings on test.

    Complete runs are not computed again, so the same call continues what was cut off. With one trial a row nothing is
    tuned: the preset is what is compared.

    Args:
        plan: What is compared, and how.
        experiment: The experiment that the plan names, or that of `methods_alone`.
        workspace: Where the runs are.
        open_executor: Returns what computes the runs; called once for each of the two stages, if it has runs left.
        earlier: Stored results. Runs that have numbers there are not computed again: a comparison can be extended on
            another machine, without the folders of its runs. A test run whose overlap is asked for and not stored
            needs its folder, or is computed again.
        overlap: Whether the overlap of tasks is measured; where it was before, it is always shown.
        display: Shows the progress.

    Returns:
        All runs, and the results as they are stored.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    contenders = plan_contenders(plan, experiment)
    known = {} if earlier is None else earlier.by_run()

    def compute(stage: str, cells: list[Cell]) -> Study:
        part = Study(cells, workspace, known)
        runs = {cell.run_id: cell for cell in part.cells}
        left = runs.keys() - known.keys()
        if overlap:
            left |= {r for r, c in runs.items() if _on_test(c) and OVERLAP not in known.get(r, {})}
        if left and display is not None:
            display.say(f"{plan.name}: {stage}, {len(left)} runs")
        if left:
            part.compute(open_executor(), display, again=left)
        for run, numbers in part.numbers.items():
            part.numbers[run] = known[run] = {measure: round(value, 4) for measure, value in numbers.items()}
        return part

    tuning = compute("tuning on validation", _trial_cells(plan, contenders))
    chosen = _choices(plan, contenders, tuning)
    study = tuning + compute("test", _test_cells(plan, contenders, chosen))
    for cell in (cell for cell in study.cells if _on_test(cell) and cell.run_id in study.numbers):
        numbers = study.numbers[cell.run_id]
        mean = mean_overlap(study, cell, measure=overlap and OVERLAP not in numbers)
        numbers |= {} if mean is None else {OVERLAP: round(mean, 4)}
    has_overlap = any(OVERLAP in numbers for numbers in study.numbers.values())
    kept = experiment.model_dump(include={"title", "published", "comparable", "notes"})
    statement = scale_statement([cell for cell in study.cells if _on_test(cell)] or study.cells)
    results = Results.of(
        _stored_groups(plan, contenders, study),
        [(one.labels, one.searched) for one in contenders],
        caption=Caption(name=plan.name, statement=statement, preset_buffers=True, **kept),
        command=plan.command + (" --overlap" if has_overlap else ""),
        code=_code(study.records, earlier),
        plan=plan,
    )
    return study, results


def print_comparison(study: Study, results: Results, files: Sequence[Path]) -> int:
    """Print the tables, what failed and what was written, and return 1 if a row has gaps, else 0.

    A trial that failed leaves none if another trial of its row was completed.
    """
    for table in comparison_tables(results):
        table.print()
    print_failures(study.failures)
    print(f"written: {', '.join(map(str, files))}")
    return (
        1 if any(g.missing for stage in ("test", "temperature") for g in results.groups(stage=stage)) else 0
    )


def methods_alone(plan: ComparePlan) -> Experiment:
    """Return the experiment of a plan that names none: its methods, with and without its plug-ins, are the rows."""
    names = [" with and without ".join(map(", ".join, filter(None, (plan.methods, plan.plugins))))]
    title = f"{names[0]} on {', '.join(plan.streams)}"
    return Experiment(name=plan.name, title=title, streams=plan.streams, rows=())


def preview_rows(
    plan: ComparePlan, experiment: Experiment, workspace: Workspace, processes: Processes
) -> str:
    """Return how many runs each stage has and how long they take; nothing is written. See `compare_rows`.

    A row whose trials are not complete counts with the settings of its preset.
    """
    contenders = plan_contenders(plan, experiment)
    tuning = Study(_trial_cells(plan, contenders), workspace).load()
    chosen = [trial or 0 for trial in _choices(plan, contenders, tuning)]
    cells = Study(_test_cells(plan, contenders, chosen), workspace).cells
    tests = [cell for cell in cells if _on_test(cell)]
    stages = {
        f"tuning, {plan.trials} trials for each of {len(contenders)} rows": list(tuning.cells),
        f"test, {len(plan.seeds)} seeds for each row": tests,
        "temperature x plug-in (runs at the preset may be counted above)": cells[len(tests) :],
    }
    lines = [f"{plan.name}: {experiment.title}"]
    for name, some in stages.items():
        if some:
            lines += [f"{name}:", Study(some, workspace).forecast(processes)]
    return "\n".join(lines)


def plan_contenders(plan: ComparePlan, experiment: Experiment) -> list[Contender]:
    """Return all rows that are compared with what is searched for each, stream by stream.

    Raises:
        UserError: If something is not allowed, or nothing is left.
    """
    plan.check()
    if experiment.single:
        raise UserError(f"{experiment.name} measures time, which is not tuned; leave out --fair")
    composed = _compose(experiment, plan)
    keep = composed.row_filter(plan.only, ())
    places = [
        (row, stream, buffer)
        for stream in composed.streams
        for row in composed.rows
        if stream not in experiment.streams or stream in (row.streams or composed.streams)
        for buffer in plan.buffers or _buffers(experiment, row, stream)
        if keep(row, stream, buffer)
    ]
    places.sort(key=lambda place: (composed.streams.index(place[1]), place[2] or 0))
    if not places:
        raise UserError(f"nothing of {experiment.name} is left by --only; leave it out")
    given = parse_assignments(plan.set)
    contenders = []
    for row, stream, buffer in places:
        preset = composed.cell(row, stream, buffer, 0, plan.scale).spec.config
        row = row.with_settings({name: value for name, value in given.items() if _has(preset, name)})
        preset = composed.cell(row, stream, buffer, 0, plan.scale).spec.config
        contenders.append(Contender(composed, row, stream, buffer, preset))
    presets = [one.preset for one in contenders]
    _check_known(given, presets, "setting")
    if plan.tunes and any(preset.data.evaluate_on != "test" for preset in presets):
        raise UserError(
            "data.evaluate_on=validation: what was chosen on validation is evaluated on test; leave it out, or give "
            "--trials 1, which chooses nothing"
        )
    space = fair_space(plan.space)
    _check_tune_set(plan, space, contenders)
    _check_known(given_space(plan.space), presets, "axis")
    by_place = {(one.row.name, one.stream, one.buffer): one.preset for one in contenders}
    return [
        _with_trials(one, plan, space, by_place.get((one.row.base or "", one.stream, one.buffer), one.preset))
        for one in contenders
    ]


def _compose(experiment: Experiment, plan: ComparePlan) -> Experiment:
    """Return the experiment with the streams, methods and plug-ins that a user names in place of its own.

    A method that the experiment lacks becomes a row. Each plug-in becomes a row for each row without plug-ins.
    """
    for stream in plan.streams:
        find_stream(stream)  # a wrong name is one error, not one for each run
    rows = list(experiment.rows)
    if plan.methods:
        rows = [row for row in rows if row.method in plan.methods]
        known = {row.method for row in rows if not row.plugins}
        rows += [Row(name=_stem(m), method=m) for m in plan.methods if m not in known]
    if plan.plugins:
        named = {row.name: row for row in rows if row.plugins}
        composed = []
        for row in (row for row in rows if not row.plugins):
            composed.append(row)
            for plugin in plan.plugins:
                name = f"{row.name}+{_stem(plugin)}"
                fresh = row.model_copy(update={"name": name, "plugins": (plugin,), "base": row.name})
                own = named.get(name)
                composed.append(own if own is not None and own.plugins == (plugin,) else fresh)
        rows = composed
    if not rows:
        raise UserError(f"nothing of {experiment.name} is left by --methods; leave it out")
    return experiment.model_copy(update={"rows": tuple(rows), "streams": plan.streams or experiment.streams})


def _buffers(experiment: Experiment, row: Row, stream: str) -> tuple[int | None, ...]:
    return (row.buffers or experiment.buffers or (None,)) if stream in experiment.streams else (None,)


def _with_trials(one: Contender, plan: ComparePlan, space: Axes, anchor: Config) -> Contender:
    """Make the trials of a row: first its preset, then points that its base tries too, with points of its own."""
    if anchor.method != one.preset.method:
        anchor = one.preset
    fixed = _set_names(one.row, one.preset)
    axes = {n: values for n, values in axes_of(space, one.preset, anchor).items() if n not in fixed}
    plugins = section_names(one.preset.method, one.preset.plugins)[1:]
    own = {name: values for name, values in axes.items() if name.rpartition(".")[0] in plugins}
    shared = {name: values for name, values in axes.items() if name not in own}
    try:
        points = different_points(shared, anchor.flat(), plan.trials - 1, plan.search_seed)
    except UserError as error:
        raise UserError(f"{one.row.name} on {one.stream}: {error}") from None
    more = balanced_points(own, plan.trials - 1, plan.search_seed)
    trials = [with_epochs(point | extra, anchor) for point, extra in zip(points, more, strict=True)]
    return replace(one, searched=axes, trials=({}, *trials))


def _set_names(row: Row, config: Config) -> set[str]:
    """Return the full names of what a row sets itself, which is therefore not searched."""
    return {full for full in config.flat() if full in row.settings or full.rpartition(".")[2] in row.settings}


def _has(config: Config, name: str) -> bool:
    return any(name in (full, full.rpartition(".")[2]) for full in config.flat())


def _check_known(names: Mapping[str, Any], presets: Sequence[Config], noun: str) -> None:
    for name in names:
        if not any(_has(preset, name) for preset in presets):
            every = {full for preset in presets for full in preset.flat() if "." in full}
            raise UserError(f"no row has the {noun} '{name}'; {did_you_mean(name, every)}")


def _check_tune_set(plan: ComparePlan, space: Axes, contenders: Sequence[Contender]) -> None:
    """Check that the settings of the trials alone exist in every row, and that none of them is searched."""
    for name in parse_assignments(plan.tune_set):
        for row, preset in ((one.row, one.preset) for one in contenders):
            if name not in preset.flat():
                raise UserError(
                    f"--tune-set {name}: {preset.title} has no such setting; {did_you_mean(name, preset.flat())}"
                )
            if name in axes_of(space, preset, preset) and name not in _set_names(row, preset):
                raise UserError(
                    f"--tune-set {name}: it is searched; leave it out, or fix it for all rows with --set"
                )


def _on_test(cell: Cell) -> bool:
    return cell.labels["stage"] == "test"


def _trial_cells(plan: ComparePlan, contenders: Sequence[Contender]) -> list[Cell]:
    return [cell for one in contenders for cell in one.trial_cells(plan)] if plan.tunes else []


def _test_cells(
    plan: ComparePlan, contenders: Sequence[Contender], chosen: Sequence[int | None]
) -> list[Cell]:
    """Return the runs on test of each row with a chosen trial, then those of each pair at each temperature."""
    cells = [
        cell
        for one, trial in zip(contenders, chosen, strict=True)
        if trial is not None
        for cell in one.test_cells(plan, trial)
    ]
    bases = {(one.row.base, one.stream, one.buffer) for one in contenders if one.row.base}
    pairs = [one for one in contenders if one.row.base or (one.row.name, one.stream, one.buffer) in bases]
    return cells + [cell for one in pairs for cell in one.temperature_cells(plan)]


def _choices(plan: ComparePlan, contenders: Sequence[Contender], tuning: Study) -> list[int | None]:
    """Return the number of the chosen trial of each row; None if no trial was completed."""
    if not plan.tunes:
        return [0] * len(contenders)
    trials = tuning.groups()
    return [choose([t for t in trials if one.labels.items() <= t.labels.items()]) for one in contenders]


def _stored_groups(plan: ComparePlan, contenders: Sequence[Contender], study: Study) -> list[Group]:
    """Return all groups; a row for which no trial was completed has one without numbers."""
    groups = study.groups()
    present = {tuple(group.labels.items()): group for group in groups}
    tests = [
        Group({"stage": "test", **one.labels}, {}, dict.fromkeys(plan.seeds, ""), one.preset.flat())
        for one in contenders
    ]
    return [
        *(group for group in groups if group.labels["stage"] == "tuning"),
        *(present.get(tuple(empty.labels.items()), empty) for empty in tests),
        *(group for group in groups if group.labels["stage"] == "temperature"),
    ]


def _code(records: Iterable[Record], earlier: Results | None) -> dict[str, tuple[str, ...]]:
    before = {} if earlier is None else earlier.code
    return {
        name: tuple(
            sorted(
                {
                    *before.get(name, ()),
                    *(str(r.environment[name]) for r in records if r.environment.get(name)),
                }
            )
        )
        for name in ("gplasc", "commit", "torch")
    }


def _stem(name: str) -> str:
    return Path(name).stem if is_file(name) else name
