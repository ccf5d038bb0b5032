"""Compare methods with and without plug-ins: tune all rows alike on validation, choose, and compute on test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc._io.files import write_atomic
from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.results.group import Group
from gplasc.results.record import RECORD
from gplasc.runs.workspace import Workspace
from gplasc.settings.components import is_file
from gplasc.settings.parse import parse_assignments
from gplasc.settings.types import Config
from gplasc.streams import find_stream
from gplasc.study.cell import Cell, Executor
from gplasc.study.compute import print_failures
from gplasc.study.experiment import Caption, Experiment, Row, scale_statement
from gplasc.study.grid import parse_axes
from gplasc.study.overlap import run_overlap
from gplasc.study.plan import ComparePlan
from gplasc.study.points import Axes, axes_of, fair_space, make_trials
from gplasc.study.processes import Processes
from gplasc.study.search import on_validation
from gplasc.study.stored import OVERLAP, Results, choose, read_results
from gplasc.study.study import Study
from gplasc.study.tables import comparison_tables, write_comparison


@dataclass(frozen=True)
class _Contender:
    """A row on a stream with a buffer, with what is searched for it.

    Args:
        experiment: The experiment, with all its rows.
        row: The row.
        preset: A run with the preset.
        searched: Values of each setting that is searched.
        trials: What is set in each trial; nothing in the first one, which has the preset.
    """

    experiment: Experiment
    row: Row
    preset: Cell
    searched: Axes = field(default_factory=dict)
    trials: tuple[Mapping[str, Any], ...] = ({},)

    @property
    def config(self) -> Config:
        """The settings of the preset."""
        return self.preset.spec.config

    @property
    def place(self) -> tuple[str, int | None]:
        """Stream and buffer, which it has in common with its base."""
        labels: Mapping[str, Any] = self.preset.labels
        return (labels["stream"], labels.get("buffer"))

    def cells(
        self, stage: str, settings: Mapping[str, Any], seeds: Iterable[int], **labels: float
    ) -> list[Cell]:
        """Return runs with further settings and labels."""
        row, (stream, buffer) = self.row.with_settings(settings), self.place
        cells = [self.experiment.cell(row, stream, buffer, seed, self.config.scale) for seed in seeds]
        return [replace(cell, labels={"stage": stage, **cell.labels, **labels}) for cell in cells]


def compare_rows(
    plan: ComparePlan,
    experiment: Experiment,
    workspace: Workspace,
    open_executor: Callable[[], Executor],
    *,
    summary: Path | None = None,
    overlap: bool = False,
    display: Display | None = None,
) -> tuple[Study, Results, list[Path]]:
    """Tune all rows on validation, choose, compute the chosen settings on test, and write tables into ``out``.

    Complete runs are not computed again, so the same call continues what was cut off. With one trial a row nothing is
    tuned: the preset is what is compared. The experiment is the one that the plan names, or that of `methods_alone`.

    Args:
        plan: What is compared, and how.
        experiment: The rows.
        workspace: Where the runs are.
        open_executor: Returns what computes the runs; called once for each of the two stages, if it has runs left.
        summary: Where the results are written too. Runs that have numbers there are not computed again: a comparison
            can be extended on another machine, without the folders of its runs. A test run whose overlap is asked
            for and not stored needs its folder, or is computed again.
        overlap: Whether the overlap of tasks is measured; where it was before, it is always shown.
        display: Shows the progress.

    Returns:
        All runs, the results as they are stored, and the files.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    contenders = _plan_contenders(plan, experiment)
    for contender in contenders:
        contender.preset.spec.require_presets()
    earlier = read_results(summary) if summary is not None and summary.exists() else None
    known = {} if earlier is None else earlier.by_run()

    def compute(stage: str, cells: list[Cell]) -> Study:
        part = Study(cells, workspace, known)
        tests = {cell.run_id for cell in part.cells if overlap and _on_test(cell)}
        again = {run for run in tests if OVERLAP not in known.get(run, {})}
        left = again | {cell.run_id for cell in part.cells} - known.keys()
        if left and display is not None:
            display.say(f"{plan.name}: {stage}, {len(left)} runs")
        if left:
            part.compute(open_executor(), display, again=again)
        for run, numbers in part.numbers.items():
            part.numbers[run] = known[run] = {measure: round(value, 4) for measure, value in numbers.items()}
        return part

    tuning = compute("tuning on validation", _trial_cells(plan, contenders))
    chosen = _choices(plan, contenders, tuning)
    study = tuning + compute("test", _test_cells(plan, contenders, chosen))
    for cell in (cell for cell in study.cells if _on_test(cell) and cell.run_id in study.numbers):
        numbers = study.numbers[cell.run_id]
        mean = _mean_overlap(study, cell, measure=overlap and OVERLAP not in numbers)
        numbers |= {} if mean is None else {OVERLAP: round(mean, 4)}
    has_overlap = any(OVERLAP in numbers for numbers in study.numbers.values())
    kept = experiment.model_dump(include={"title", "published", "comparable", "notes"})
    statement = scale_statement([cell for cell in study.cells if _on_test(cell)] or study.cells)
    results = Results.of(
        _stored_groups(plan, contenders, study),
        [(one.preset.labels, one.searched) for one in contenders],
        caption=Caption(name=plan.name, statement=statement, preset_buffers=True, **kept),
        command=plan.command + (" --overlap" if has_overlap else ""),
        code=_code(study, earlier),
        plan=plan,
    )
    files = write_comparison(results, workspace.out / plan.folder)
    return study, results, files if summary is None else [*files, results.write(summary)]


def print_comparison(study: Study, results: Results, files: Sequence[Path]) -> int:
    """Print the tables, what failed and what was written, and return 1 if a row has gaps, else 0.

    A trial that failed leaves none if another trial of its row was completed.
    """
    for table in comparison_tables(results):
        table.print()
    print_failures(study.failures)
    print(f"written: {', '.join(map(str, files))}")
    return int(any(group.missing for group in results.groups() if group.labels["stage"] != "tuning"))


def methods_alone(plan: ComparePlan) -> Experiment:
    """Return the experiment of a plan that names none: its methods, with and without its plug-ins, are the rows."""
    names = " with and without ".join(", ".join(some) for some in (plan.methods, plan.plugins) if some)
    title = f"{names} on {', '.join(plan.streams)}"
    return Experiment(name=plan.name, title=title, streams=plan.streams, rows=())


def preview_rows(
    plan: ComparePlan, experiment: Experiment, workspace: Workspace, processes: Processes
) -> str:
    """Return how many runs each stage has and how long they take; nothing is written. See `compare_rows`.

    A row whose trials are not complete counts with the settings of its preset.
    """
    contenders = _plan_contenders(plan, experiment)
    tuning = Study(_trial_cells(plan, contenders), workspace)
    chosen = [trial or 0 for trial in _choices(plan, contenders, tuning.load())]
    rest = _test_cells(plan, contenders, chosen)
    stages = {
        f"tuning, {plan.trials} trials for each of {len(contenders)} rows": tuning.cells,
        f"test, {len(plan.seeds)} seeds for each row": [cell for cell in rest if _on_test(cell)],
        "temperature x plug-in (runs at the preset may be counted above)": [
            cell for cell in rest if not _on_test(cell)
        ],
    }
    texts = [f"{name}:\n{Study(c, workspace).forecast(processes)}" for name, c in stages.items() if c]
    return "\n".join([f"{plan.name}: {experiment.title}", *texts])


def _plan_contenders(plan: ComparePlan, experiment: Experiment) -> list[_Contender]:
    """Return all rows that are compared with what is searched for each, stream by stream.

    Raises:
        UserError: If something is not allowed, or nothing is left.
    """
    plan.check()
    if experiment.single:
        raise UserError(f"{experiment.name} measures time, which is not tuned; leave out --fair")
    composed = _compose(experiment, plan)
    keep = composed.row_filter(plan.only)
    places = [
        (row, stream, buffer)
        for stream in composed.streams
        for row in composed.rows
        if stream not in experiment.streams or stream in (row.streams or composed.streams)
        for buffer in plan.buffers or experiment.buffers_of(row, stream)
        if keep(row, stream, buffer)
    ]
    places.sort(key=lambda place: (composed.streams.index(place[1]), place[2] or 0))
    if not places:
        raise UserError(f"nothing of {experiment.name} is left by --only; leave it out")
    given = parse_assignments(plan.set)
    contenders = []
    for row, stream, buffer in places:
        config = composed.cell(row, stream, buffer, 0, plan.scale).spec.config
        row = row.with_settings({name: value for name, value in given.items() if _has(config, name)})
        contenders.append(_Contender(composed, row, composed.cell(row, stream, buffer, 0, plan.scale)))
    configs = [one.config for one in contenders]
    if plan.tunes and any(config.data.evaluate_on != "test" for config in configs):
        raise UserError(
            "data.evaluate_on=validation: what was chosen on validation is evaluated on test; leave it out, or give "
            "--trials 1, which chooses nothing"
        )
    _check_known("setting", given, configs)
    _check_known("axis", parse_axes(plan.space), configs)
    space = fair_space(plan.space)
    _check_tune_set(plan, space, contenders)
    by_place = {(one.row.name, one.place): one.config for one in contenders}
    return [
        _with_trials(one, plan, space, by_place.get((one.row.base or "", one.place), one.config))
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
        rows += [Row(name=_stem(method), method=method) for method in plan.methods if method not in known]
    if plan.plugins:
        own = {(row.name, row.plugins): row for row in rows}
        alone, rows = [row for row in rows if not row.plugins], []
        for row in alone:
            rows.append(row)
            for plugin in plan.plugins:
                name = f"{row.name}+{_stem(plugin)}"
                fresh = row.model_copy(update={"name": name, "plugins": (plugin,), "base": row.name})
                rows.append(own.get((name, (plugin,)), fresh))
    if not rows:
        raise UserError(f"nothing of {experiment.name} is left by --methods; leave it out")
    return experiment.model_copy(update={"rows": tuple(rows), "streams": plan.streams or experiment.streams})


def _with_trials(one: _Contender, plan: ComparePlan, space: Axes, anchor: Config) -> _Contender:
    """Add what is searched; a row and its base search what they share over the values of the base."""
    if anchor.method != one.config.method:
        anchor = one.config
    fixed = _set_names(one)
    axes = {n: values for n, values in axes_of(space, one.config, anchor).items() if n not in fixed}
    try:
        trials = make_trials(axes, one.config, anchor, plan.trials, plan.search_seed)
    except UserError as error:
        raise UserError(f"{one.row.name} on {one.preset.labels['stream']}: {error}") from None
    return replace(one, searched=axes, trials=trials)


def _set_names(one: _Contender) -> set[str]:
    """Return the full names of what a row sets itself, which is therefore not searched."""
    settings = one.row.settings
    return {full for full in one.config.flat() if full in settings or full.rpartition(".")[2] in settings}


def _has(config: Config, name: str) -> bool:
    return any(name in (full, full.rpartition(".")[2]) for full in config.flat())


def _check_known(noun: str, names: Iterable[str], configs: Sequence[Config]) -> None:
    for name in names:
        if not any(_has(config, name) for config in configs):
            every = {full for config in configs for full in config.flat() if "." in full}
            raise UserError(f"no row has the {noun} '{name}'; {did_you_mean(name, every)}")


def _check_tune_set(plan: ComparePlan, space: Axes, contenders: Sequence[_Contender]) -> None:
    """Check that the settings of the trials alone exist in every row, and that none of them is searched."""
    for name in parse_assignments(plan.tune_set):
        for one in contenders:
            config = one.config
            if name not in config.flat():
                hint = did_you_mean(name, config.flat())
                raise UserError(f"--tune-set {name}: {config.title} has no such setting; {hint}")
            if name in axes_of(space, config, config) and name not in _set_names(one):
                raise UserError(
                    f"--tune-set {name}: it is searched; leave it out, or fix it for all rows with --set"
                )


def _on_test(cell: Cell) -> bool:
    return cell.labels["stage"] == "test"


def _trial_cells(plan: ComparePlan, contenders: Sequence[_Contender]) -> list[Cell]:
    """Return the runs of the trials, evaluated on a share of the training samples."""
    cheaper = {**parse_assignments(plan.tune_set), "data.validation": plan.validation}
    cells = []
    for one in contenders if plan.tunes else ():
        for number, trial in enumerate(one.trials):
            settings = on_validation({**one.row.settings, **trial, **cheaper})
            cells += one.cells("tuning", settings, plan.tune_seeds, trial=number)
    return cells


def _test_cells(
    plan: ComparePlan, contenders: Sequence[_Contender], chosen: Sequence[int | None]
) -> list[Cell]:
    """Return the runs on test of each row with a chosen trial, then those of each pair at each temperature."""
    cells = []
    for one, trial in zip(contenders, chosen, strict=True):
        cells += [] if trial is None else one.cells("test", one.trials[trial], plan.seeds)
    bases = {(one.row.base, one.place) for one in contenders}
    for one in contenders:
        setting = f"{next(iter(one.config.options))}.temperature"
        is_paired = one.row.base or (one.row.name, one.place) in bases
        if is_paired and setting in one.config.flat() and setting not in _set_names(one):
            for value in plan.temperatures:
                cells += one.cells("temperature", {setting: value}, plan.seeds, temperature=value)
    return cells


def _choices(plan: ComparePlan, contenders: Sequence[_Contender], tuning: Study) -> list[int | None]:
    """Return the number of the chosen trial of each row; None if no trial was completed."""
    if not plan.tunes:
        return [0] * len(contenders)
    trials = tuning.groups()
    return [
        choose([t for t in trials if one.preset.labels.items() <= t.labels.items()]) for one in contenders
    ]


def _stored_groups(plan: ComparePlan, contenders: Sequence[_Contender], study: Study) -> list[Group]:
    """Return all groups with the settings that are stored: of a trial what is searched, of a run on test all.

    A row for which no trial was completed has a group without numbers.
    """
    every, stored = study.groups(), []
    for stage in ("tuning", "test", "temperature"):
        for one in contenders:
            labels = {"stage": stage, **one.preset.labels}
            own = [group for group in every if labels.items() <= group.labels.items()]
            if stage == "test":
                stored += own or [Group(labels, {}, dict.fromkeys(plan.seeds, ""), one.config.flat())]
            else:
                names = one.searched if stage == "tuning" else ()
                stored += [replace(g, settings={name: g.settings[name] for name in names}) for g in own]
    return stored


def _mean_overlap(study: Study, cell: Cell, *, measure: bool) -> float | None:
    """Return the mean overlap of two tasks of a run, which is kept in its folder.

    None if it was not measured before, and is not asked for or cannot be measured without the folder of the run.
    """
    folder = study.workspace.out / cell.run_id
    path = folder / "overlap.json"
    if path.exists():
        try:
            return float(json.loads(path.read_text(encoding="utf-8"))["mean"])
        except (ValueError, LookupError, TypeError):
            raise UserError(f"{path} is damaged; delete it, and measure again with --overlap") from None
    if not measure or not (folder / RECORD).exists():
        return None
    mean = float(run_overlap(study.restore(cell)).pairs.mean())
    write_atomic(path, json.dumps({"mean": mean}) + "\n")
    return mean


def _code(study: Study, earlier: Results | None) -> dict[str, tuple[str, ...]]:
    """Return versions and commits of the code that computed the runs, now and before."""
    environments = [record.environment for record in study.records]
    code = {}
    for name in ("gplasc", "commit", "torch"):
        now = {str(environment[name]) for environment in environments if environment.get(name)}
        code[name] = tuple(sorted(now.union(earlier.code.get(name, ()) if earlier else ())))
    return code


def _stem(name: str) -> str:
    return Path(name).stem if is_file(name) else name
