"""Compare methods with and without plug-ins: tune all rows alike on validation, choose, and compute on test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc._io.display import display as open_display
from gplasc._io.files import write_atomic
from gplasc._io.reading import read_text
from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.results.group import CLASS_IL, Group
from gplasc.results.record import RECORD
from gplasc.runs.workspace import Workspace
from gplasc.settings.parse import parse_assignments
from gplasc.settings.types import Scale
from gplasc.streams.catalog import stream_name
from gplasc.study._conclusions import conclusion
from gplasc.study._contenders import Contender, plan_contenders, with_settings_of_others
from gplasc.study.cell import Cell, Executor
from gplasc.study.compute import print_failures
from gplasc.study.experiment import Caption, Experiment, scale_statement
from gplasc.study.plan import ComparePlan
from gplasc.study.processes import Processes, ThisProcess
from gplasc.study.search import on_validation
from gplasc.study.stored import OVERLAP, Results, choose, read_results
from gplasc.study.study import Study
from gplasc.study.tables import comparison_tables, write_comparison


def compare(
    stream: str | Path,
    methods: Sequence[str] | str,
    plugins: Sequence[str] | str = (),
    seeds: Sequence[int] = (0, 1, 2),
    *,
    tune: int | None = None,
    buffers: Sequence[int] = (),
    like: str | None = None,
    scale: Scale = "cpu",
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str | None = None,
    workers: int = 1,
    quiet: bool = False,
    **settings: Any,
) -> Study:
    """Compare methods with and without plug-ins on a stream; the same as ``gplasc compare``.

    Complete runs are not computed again. Tables are written into a folder of ``out``.

    >>> from gplasc.results.group import CLASS_IL
    >>> study = gplasc.compare("seq-digits", ["co2l", "er"], ["gplasc"], seeds=(0, 1))  # doctest: +SKIP
    >>> for group in study.groups(stage="test"):  # doctest: +SKIP
    ...     print(group.labels["row"], group.spread(CLASS_IL))

    Args:
        stream: Name of a stream.
        methods: Names of methods, or paths of Python files with your own.
        plugins: Names of plug-ins, or paths of Python files; each is added to each method.
        seeds: Seeds of the runs on test.
        tune: Trials that every row is tuned with, on a validation split; default: the presets are used.
        buffers: Sizes of the memory; default: that of the preset.
        like: Built-in method whose presets methods of your own take; default: those that their classes name.
        scale: ``"paper"``, ``"cpu"`` or ``"smoke"``.
        out: Folder of all runs.
        data_dir: Where data sets are; default: ``GPLASC_DATA``, then the user's cache folder.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``; default: the accelerator if there is one.
        workers: Runs that are computed at the same time. More than one need processes of their own: a script then
            calls this function below ``if __name__ == "__main__":``.
        quiet: No progress.
        **settings: Settings of all rows by the names of ``gplasc show``; they are not searched.

    Returns:
        The runs. Those on test have the label ``stage="test"``, the trials ``stage="tuning"``.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    plan = ComparePlan(
        streams=(stream_name(stream),),
        methods=(methods,) if isinstance(methods, str) else tuple(methods),
        plugins=(plugins,) if isinstance(plugins, str) else tuple(plugins),
        seeds=tuple(seeds),
        trials=1 if tune is None else tune,
        buffers=tuple(buffers),
        like=like,
        scale=scale,
        set=tuple(f"{name}={'none' if v is None else json.dumps(v)}" for name, v in settings.items()),
    )
    workspace, display = Workspace(Path(out), data_dir, device), open_display(quiet)

    def open_executor() -> Executor:
        return ThisProcess(display) if workers == 1 else Processes(workers)

    return compare_rows(plan, methods_alone(plan), workspace, open_executor, display=display)[0]


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
    tuned: the preset is what is compared. The experiment is the one that the plan names, or that of `methods_alone`;
    ``open_executor`` is called once for each stage that has runs left. Runs that have numbers in the file ``summary``
    are not computed again, so a comparison can be extended without the folders of its runs; the overlap of tasks is
    measured where they are there. Returns all runs, the results as they are stored, and the files.
    """
    contenders = plan_contenders(plan, experiment)
    plan = plan.model_copy(update={"family": _family(plan, contenders)})
    earlier = read_results(summary) if summary is not None and summary.exists() else None
    known = {} if earlier is None else earlier.by_run()

    def compute(stage: str, cells: list[Cell], later: int = 0) -> Study:
        part = Study(cells, workspace, known)
        left = {cell.run_id for cell in part.cells} - known.keys()
        if left and display is not None:
            display.say(f"{plan.name}: {stage}, {len(left)} runs")
        if left:
            part.compute(open_executor(), display, later=later)
        for run, numbers in part.numbers.items():
            part.numbers[run] = known[run] = {measure: round(value, 4) for measure, value in numbers.items()}
        return part

    later = len(contenders) * len(plan.seeds)
    study = compute("tuning on validation", _trial_cells(plan, contenders), later)
    contenders = with_settings_of_others(_choose(plan, contenders, study))
    study += compute("bases on validation", _base_cells(plan, contenders), later)
    contenders = _better_bases_first(contenders, study)
    study += compute("test", _test_cells(plan, contenders))
    tests = [cell for cell in study.cells if cell.labels["stage"] == "test"]
    for cell in tests:
        numbers = study.numbers.get(cell.run_id, {})
        mean = _mean_overlap(study, cell, measure=overlap and OVERLAP not in numbers) if numbers else None
        numbers |= {} if mean is None else {OVERLAP: round(mean, 4)}
    has_overlap = any(OVERLAP in numbers for numbers in study.numbers.values())
    kept = experiment.model_dump(include={"title", "published", "comparable", "notes"})
    own = (name for row in plan.rows for name in row.settings)
    given = dict.fromkeys([*parse_assignments(plan.set), *own])
    kept["changed"] = (*given, *(["what was tuned"] if plan.tunes else []))
    statement = scale_statement(tests or study.cells, kept["changed"])
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
    print(conclusion(results))
    return int(any(group.missing for group in results.groups() if group.labels["stage"] != "tuning"))


def methods_alone(plan: ComparePlan) -> Experiment:
    """Return the experiment of a plan that names none: its methods, with and without its plug-ins, are the rows."""
    names = " with and without ".join(", ".join(some) for some in (plan.methods, plan.plugins) if some)
    title = f"{names or plan.name} on {', '.join(plan.streams)}"
    return Experiment(name=plan.name, title=title, streams=plan.streams, rows=())


def preview_rows(
    plan: ComparePlan, experiment: Experiment, workspace: Workspace, processes: Processes
) -> str:
    """Return how many runs each stage has and how long they take; nothing is written. See `compare_rows`.

    A row whose trials are not complete counts with the settings of its preset.
    """
    contenders = plan_contenders(plan, experiment)
    tuning = Study(_trial_cells(plan, contenders), workspace)
    chosen = [replace(one, chosen=one.chosen or {}) for one in _choose(plan, contenders, tuning.load())]
    finals = with_settings_of_others(chosen)
    stages = {
        f"tuning, {plan.trials} trials for each of {len(contenders)} rows": tuning.cells,
        "bases on validation": _base_cells(plan, finals),
        f"test, {len(plan.seeds)} seeds for each row": _test_cells(plan, finals),
    }
    texts = [f"{name}:\n{Study(c, workspace).forecast(processes)}" for name, c in stages.items() if c]
    return "\n".join([f"{plan.name}: {experiment.title}", *texts])


def _trial_cells(plan: ComparePlan, contenders: Sequence[Contender]) -> list[Cell]:
    """Return the runs of the trials, evaluated on a share of the training samples."""
    cells = []
    for one in contenders if plan.tunes else ():
        for number, trial in enumerate(one.trials):
            cells += one.cells("tuning", _cheaper(plan, one, trial), plan.tune_seeds, trial=number)
    return cells


def _cheaper(plan: ComparePlan, one: Contender, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for a run on validation."""
    share = {**parse_assignments(plan.tune_set), "data.validation": plan.validation}
    return on_validation({**one.row.settings, **settings, **share})


def _base_cells(plan: ComparePlan, contenders: Sequence[Contender]) -> list[Cell]:
    """Return the runs on validation that choose between the bases of a row, with seeds that no trial had."""
    several = {(name, one.place) for one in contenders if len(one.bases) > 1 for name in one.bases}
    cells = []
    for one in contenders:
        if (one.row.name, one.place) in several:
            cells += one.cells("bases", _cheaper(plan, one, one.chosen or {}), plan.base_seeds)
    return cells


def _better_bases_first(contenders: Sequence[Contender], study: Study) -> list[Contender]:
    """Put the base that is better on validation first; it is the same for all seeds."""
    means: dict[Any, float] = {}
    for group in study.groups(stage="bases"):
        place = (group.labels["stream"], group.labels.get("buffer"))
        means[group.labels["row"], place] = -1.0 if group.missing else group.spread(CLASS_IL).mean
    return [
        replace(one, bases=tuple(sorted(one.bases, key=lambda name: -means.get((name, one.place), -1.0))))
        for one in contenders
    ]


def _family(plan: ComparePlan, contenders: Sequence[Contender]) -> tuple[str, ...]:
    """Return the rows whose gains are tested: those that the plan names, else all with a base."""
    names = dict.fromkeys(one.row.name for one in contenders if one.row.base)
    for name in plan.family:
        if name not in names:
            raise UserError(
                f"the family has the row '{name}', which is not compared; {did_you_mean(name, names)}"
            )
    return plan.family or tuple(names)


def _test_cells(plan: ComparePlan, contenders: Sequence[Contender]) -> list[Cell]:
    """Return the runs on test of each row with a chosen trial."""
    chosen = [one for one in contenders if one.chosen is not None]
    return [cell for one in chosen for cell in one.cells("test", one.chosen or {}, plan.seeds)]


def _choose(plan: ComparePlan, contenders: Sequence[Contender], tuning: Study) -> list[Contender]:
    """Return the rows with what was chosen for each; None if no trial was completed."""
    trials, rows = tuning.groups(), []
    for one in contenders:
        own = [trial for trial in trials if one.preset.labels.items() <= trial.labels.items()]
        number = choose(own) if plan.tunes else 0
        rows.append(replace(one, chosen=None if number is None else one.trials[number]))
    return rows


def _stored_groups(plan: ComparePlan, contenders: Sequence[Contender], study: Study) -> list[Group]:
    """Return all groups with the settings that are stored: of a trial what is searched, of a run on test all.

    A row for which no trial was completed has a group without numbers.
    """
    every, stored = study.groups(), []
    for stage in ("tuning", "bases", "test"):
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
        with suppress(ValueError, LookupError, TypeError, RecursionError):  # damaged: it is measured again
            return float(json.loads(read_text(path))["mean"])
    if not measure or not (folder / RECORD).exists():
        return None
    mean = float(study.overlap(cell).pairs.mean())
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
