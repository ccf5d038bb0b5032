"""A fair comparison from beginning to end: tune every row on validation, choose, compute on test, compare, write."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.paper.definition import PlannedRun
from gplasc.paper.fair.plan import Protocol, Side, plan_sides
from gplasc.paper.fair.summary import (
    FairSummary,
    Numbers,
    RowResult,
    TemperatureResult,
    TrialResult,
    choose,
    numbers_of,
    read_summary,
)
from gplasc.paper.fair.tables import save_summary, summary_tables
from gplasc.paper.reproduce import cells_of, identified
from gplasc.paper.summary import scale_statement
from gplasc.paper.views import pairs_of, run_overlap
from gplasc.results.record import read_record
from gplasc.runs.restore import restore
from gplasc.runs.workspace import Workspace
from gplasc.streams import Stream
from gplasc.study.cell import Executor, Outcome
from gplasc.study.compute import compute, print_failures
from gplasc.study.executors import Engine
from gplasc.study.forecast import forecast

_OVERLAP = "overlap.json"  # of a run: the mean overlap of two tasks

_Records = Mapping[str, Any]
_Runs = dict[tuple[Any, ...], list[PlannedRun]]


@dataclass(frozen=True)
class Compared:
    """A fair comparison, the files written, and the failed runs that leave gaps in its tables.

    A trial that failed leaves none if another trial of its row was completed.
    """

    summary: FairSummary
    files: list[Path]
    failed: list[Outcome]


def compare_fairly(
    protocol: Protocol,
    *,
    out: Path = Path("runs"),
    data_dir: Path | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    overlap: bool = False,
    summary_file: Path | None = None,
    display: Display | None = None,
    open_executor: Callable[[], Executor] | None = None,
) -> Compared:
    """Tune all rows, compute the chosen settings on test, print the tables and write them into ``out/NAME-fair``.

    Complete runs are not computed again, so the same call continues what was cut off. With one trial a row nothing is
    tuned: the preset is what is compared.

    Args:
        protocol: What is compared, and how.
        out: Folder of all runs.
        data_dir: Where data sets are.
        device: Where to compute.
        engine: What computes the runs; default: processes of this machine.
        overlap: Whether the overlap of tasks is measured; where it was before, it is always shown.
        summary_file: Where the summary is written too. Runs whose numbers the file has already are not computed again:
            a comparison can be extended on another machine, without the folders of its runs. A test run whose
            overlap is asked for and not in the file needs its folder, or is computed again.
        display: Shows the progress.
        open_executor: Computes the runs in place of the engine; called once for each of the two stages.

    Returns:
        The comparison.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    engine = engine or Engine()
    engine.processes(protocol.scale)  # refuses options that do not fit
    sides = plan_sides(protocol)
    workspace = Workspace(out, data_dir, device)
    opened = open_executor or (lambda: engine.open(protocol.scale))
    earlier = read_summary(summary_file) if summary_file is not None and summary_file.exists() else None
    known = {} if earlier is None else earlier.records()
    overlaps = {run: float(found["overlap"]) for run, found in known.items() if found["overlap"] is not None}

    def stage(name: str, groups: _Runs, complete: Container[str]) -> dict[str, Outcome]:
        runs = [run for run in _all(groups) if run.run_id not in complete]
        if not runs:
            return {}
        if display is not None:
            display.say(f"{protocol.experiment}, fair: {name}, {len({run.run_id for run in runs})} runs")
        return compute(cells_of(runs), workspace, opened(), display)

    tuning = _tuning_runs(sides, protocol, data_dir) if protocol.tunes else {}
    results = stage("tuning on validation", tuning, known)
    tried = {side.key: _tried(side, tuning, known | _records(results)) for side in sides}
    chosen = {key: choose(trials) if protocol.tunes else 0 for key, trials in tried.items()}
    tests = _test_runs(sides, chosen, protocol, data_dir)
    warmth = _temperature_runs(sides, protocol, data_dir)
    gaps = {run.run_id for side in sides if chosen[side.key] is None for run in _of(tuning, side)}
    gaps |= {run.run_id for run in (*_all(tests), *_all(warmth))}
    unmeasured = {run.run_id for run in _all(tests)} - overlaps.keys() if overlap else set()
    results |= stage("test", tests | warmth, known.keys() - unmeasured)
    records = known | _records(results)
    overlaps |= _overlaps(_all(tests), out, data_dir, device, measure=overlap, known=overlaps)
    summary = FairSummary(
        title=sides[0].experiment.title,
        statement=scale_statement(protocol.scale, _all(tests) or _all(tuning)),
        command=protocol.command + (" --overlap" if overlaps else ""),
        code=_code(_records(results), earlier),
        protocol=protocol,
        rows=tuple(_row_results(sides, tried, tests, records, overlaps)),
        temperatures=tuple(_temperature_results(sides, protocol, warmth, records)),
    )
    files = save_summary(summary, out / f"{protocol.experiment}-fair")
    if summary_file is not None:
        files.append(summary.write(summary_file))
    for table in summary_tables(summary):
        table.print()
    failed = [result for result in results.values() if result.state == "failed"]
    print_failures(failed)
    print(f"written: {', '.join(map(str, files))}")
    return Compared(summary, files, [result for result in failed if result.cell.run_id in gaps])


def preview_fair(
    protocol: Protocol,
    *,
    out: Path = Path("runs"),
    data_dir: Path | None = None,
    device: str | None = None,
    engine: Engine | None = None,
) -> str:
    """Return how many runs each stage has and how long they take; nothing is written. See `compare_fairly`.

    A row whose trials are not complete counts with the settings of its preset.
    """
    engine = engine or Engine()
    processes = engine.processes(protocol.scale)
    sides = plan_sides(protocol)
    tuning = _tuning_runs(sides, protocol, data_dir) if protocol.tunes else {}
    complete = {run.run_id: read_record(out / run.run_id) for run in _all(tuning)}
    records = {run: record for run, record in complete.items() if record is not None}
    chosen = {side.key: choose(_tried(side, tuning, records)) or 0 for side in sides}
    stages = {f"tuning, {protocol.trials} trials for each of {len(sides)} rows": tuning} if tuning else {}
    stages |= {
        f"test, {len(protocol.seeds)} seeds for each row": _test_runs(sides, chosen, protocol, data_dir),
    }
    warmth = _temperature_runs(sides, protocol, data_dir)
    if warmth:
        stages["temperature x plug-in (runs at the preset may be counted above)"] = warmth
    lines = [f"{protocol.experiment}, fair: {sides[0].experiment.title}"]
    for name, groups in stages.items():
        found = forecast(cells_of(_all(groups)), Workspace(out, data_dir, device), threads=processes.threads)
        lines += [f"{name}:", found.text(processes.workers)]
    return "\n".join(lines)


def _tuning_runs(sides: Sequence[Side], protocol: Protocol, data_dir: Path | None) -> _Runs:
    return _identified(
        {
            (side.key, number): [side.tuning_run(trial, protocol, seed) for seed in protocol.tune_seeds]
            for side in sides
            for number, trial in enumerate(side.trials)
        },
        data_dir,
    )


def _test_runs(
    sides: Sequence[Side], chosen: Mapping[Any, int | None], protocol: Protocol, data_dir: Path | None
) -> _Runs:
    found: _Runs = {}
    for side in sides:
        number = chosen[side.key]
        settings = {} if number is None else side.trials[number].settings
        found[side.key] = [side.run(settings, seed) for seed in protocol.seeds] if number is not None else []
    return _identified(found, data_dir)


def _temperature_runs(sides: Sequence[Side], protocol: Protocol, data_dir: Path | None) -> _Runs:
    """Return the runs of pairs at each temperature, all else at the preset."""
    pairs = {(side.row.base, side.stream, side.buffer) for side in sides if side.row.base}
    return _identified(
        {
            (side.key, temperature): [
                side.run({side.temperature: temperature}, seed) for seed in protocol.seeds
            ]
            for side in sides
            if side.temperature is not None and (side.row.base or side.key in pairs)
            for temperature in protocol.temperatures
        },
        data_dir,
    )


def _all(groups: _Runs) -> list[PlannedRun]:
    return [run for group in groups.values() for run in group]


def _of(tuning: _Runs, side: Side) -> list[PlannedRun]:
    return [run for number, _ in enumerate(side.trials) for run in tuning.get((side.key, number), ())]


def _identified(groups: _Runs, data_dir: Path | None) -> _Runs:
    flat = iter(identified(_all(groups), data_dir))
    return {key: [next(flat) for _ in group] for key, group in groups.items()}


def _records(results: Mapping[str, Outcome]) -> dict[str, Any]:
    return {run: result.record for run, result in results.items() if result.record is not None}


def _tried(side: Side, tuning: _Runs, records: _Records) -> list[TrialResult]:
    """Return the trials of a side with their accuracies on validation."""
    found = []
    for number, trial in enumerate(side.trials):
        runs = tuning.get((side.key, number), [])
        scores = {run.seed: records[run.run_id] for run in runs if run.run_id in records}
        if any(record["settings"]["data"]["evaluate_on"] != "validation" for record in scores.values()):
            raise RuntimeError(f"a trial of {side.row.name} was not evaluated on validation")
        found.append(
            TrialResult(
                values=dict(trial.values),
                validation={
                    seed: round(float(record["metrics"]["class_il"]["final_accuracy"]), 4)
                    for seed, record in scores.items()
                },
                runs={run.seed: run.run_id for run in runs},
            )
        )
    return found


def _row_results(
    sides: Sequence[Side],
    tried: Mapping[Any, list[TrialResult]],
    tests: _Runs,
    records: _Records,
    overlaps: Mapping[str, float],
) -> list[RowResult]:
    numbers = {key: _numbers(runs, records, overlaps) for key, runs in tests.items()}
    found = []
    for side in sides:
        runs, base = tests[side.key], (side.row.base or "", side.stream, side.buffer)
        config = runs[0].resolved.config if runs else side.preset
        settings = {name: value for name, value in config.flat().items() if name != "seed"}
        found.append(
            RowResult(
                row=side.row.name,
                base=side.row.base if base in numbers else None,
                stream=side.stream,
                buffer=side.buffer,
                method=side.row.method,
                plugins=side.row.plugins,
                measured_on=config.stream,
                searched=dict(side.searched),
                trials=tuple(tried[side.key]),
                settings=settings,
                metrics=numbers[side.key],
                runs={run.seed: run.run_id for run in runs if run.run_id in records},
            )
        )
    return found


def _temperature_results(
    sides: Sequence[Side], protocol: Protocol, warmth: _Runs, records: _Records
) -> list[TemperatureResult]:
    numbers = {key: _numbers(runs, records, {}) for key, runs in warmth.items()}
    found = []
    for side in sides:
        for temperature in protocol.temperatures:
            key = (side.key, temperature)
            base = ((side.row.base or "", side.stream, side.buffer), temperature)
            if key in numbers:
                found.append(
                    TemperatureResult(
                        row=side.row.name,
                        base=side.row.base if base in numbers else None,
                        stream=side.stream,
                        buffer=side.buffer,
                        temperature=temperature,
                        metrics=numbers[key],
                        runs={run.seed: run.run_id for run in warmth[key] if run.run_id in records},
                    )
                )
    return found


def _numbers(runs: Sequence[PlannedRun], records: _Records, overlaps: Mapping[str, float]) -> Numbers:
    """Return what was measured of the runs, by measure and seed."""
    found: Numbers = {}
    for run in runs:
        if run.run_id in records:
            for name, value in numbers_of(records[run.run_id], overlaps.get(run.run_id)).items():
                found.setdefault(name, {})[run.seed] = value
    return found


def _overlaps(
    runs: Sequence[PlannedRun],
    out: Path,
    data_dir: Path | None,
    device: str | None,
    *,
    measure: bool,
    known: Mapping[str, float],
) -> dict[str, float]:
    """Return the mean overlap of two tasks of each run where it was measured; it is kept in the folder of the run."""
    found: dict[str, float] = {}
    streams: dict[tuple[object, ...], Stream] = {}
    for run in runs:
        path = out / run.run_id / _OVERLAP
        if path.exists():
            try:
                found[run.run_id] = float(json.loads(path.read_text(encoding="utf-8"))["mean"])
            except (ValueError, LookupError, TypeError):
                raise UserError(f"{path} is damaged; delete it, and measure again with --overlap") from None
        elif measure and run.run_id not in known and read_record(path.parent) is not None:
            config = run.resolved.config
            key = (config.stream, config.data)
            restored = restore(path.parent, data_dir=data_dir, device=device, stream=streams.get(key))
            streams[key] = restored.stream
            found[run.run_id] = float(pairs_of(run_overlap(restored)).mean())
            write_atomic(path, json.dumps({"mean": found[run.run_id]}) + "\n")
    return found


def _code(records: _Records, earlier: FairSummary | None) -> dict[str, tuple[str, ...]]:
    environments = [record.get("environment") or {} for record in records.values()]
    before = {} if earlier is None else earlier.code
    return {
        name: tuple(
            sorted({*before.get(name, ()), *(str(found[name]) for found in environments if found.get(name))})
        )
        for name in ("gplasc", "commit", "torch")
    }
