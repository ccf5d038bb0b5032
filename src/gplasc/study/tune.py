"""`gplasc tune`: a search for settings, ending in a file of settings, a table and a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.display import Display
from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Marked, Table
from gplasc.errors import UserError
from gplasc.report.charts import Chart, Series, write_charts
from gplasc.study.executors import Engine
from gplasc.study.search import Search, finished, run_search

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

_SHOWN = 5


def tune(search: Search, engine: Engine, display: Display) -> list[Path]:
    """Search, print the best trials, and write their settings and a picture into the folder of the study.

    Args:
        search: What is searched.
        engine: What computes the trials.
        display: Shows the progress.

    Returns:
        The files written: ``best.toml``, to be read with ``--config``, ``trials.csv`` and ``study.svg``.

    Raises:
        UserError: If something is not allowed, or no trial was completed.
        Interrupted: If a signal asked to stop.
    """
    if not search.space:
        raise UserError(
            "the paper searched no setting of this method; give some with --space NAME=VALUE,VALUE"
        )
    for name, values in search.space.items():  # a wrong name or value ends the command, not each trial
        for value in values:
            search.resolve({name: value})
    study = run_search(search, engine, display)
    trials = finished(study)
    complete = sorted(_in_state(trials, "COMPLETE"), key=lambda trial: (-(trial.value or 0.0), trial.number))
    if not complete:
        raise UserError(f"none of the {len(trials)} trials was completed; see {search.out}/trials.csv")
    names = list(search.space)
    _best_table(trials, complete, names).print()
    return [
        write_atomic(search.out / "best.toml", _best(search, complete[0].params, complete[0].number)),
        write_atomic(search.out / "trials.csv", _trials_table(trials, names).to_csv()),
        _plot(study, trials, search.out / "study"),
    ]


def _in_state(trials: list[FrozenTrial], state: str) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.state.name == state]


def _best(search: Search, params: dict[str, Any], number: int) -> str:
    """Return the complete settings of the best trial as TOML, for runs that are evaluated on the test split."""
    given = search.request.settings.items()
    kept = {
        name: value for name, value in given if name.rpartition(".")[2] not in ("validation", "evaluate_on")
    }
    config = replace(search.request, settings=kept | params).resolve().config
    chosen = ", ".join(f"{name}={value}" for name, value in params.items())
    return f"# Trial {number} of {search.trials}, chosen on a validation split: {chosen}\n{config.to_toml()}"


def _best_table(trials: list[FrozenTrial], complete: list[FrozenTrial], names: list[str]) -> Table:
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    said = ", ".join(f"{len(_in_state(trials, state))} {word}" for state, word in states.items())
    rows: list[list[Any]] = [
        [t.number, *(t.params[name] for name in names), f"{t.value:.2f}"] for t in complete[:_SHOWN]
    ]
    rows[0] = [Marked(str(value), "best") for value in rows[0]]
    columns: list[Column | str] = [Column("trial", "left"), *names, "class-IL on validation"]
    return Table(f"the best of {len(trials)} trials ({said}), percent", columns, rows)


def _trials_table(trials: list[FrozenTrial], names: list[str]) -> Table:
    rows = []
    for t in trials:
        value = t.value if t.state.name == "COMPLETE" else None
        values = (t.params.get(name) for name in names)
        rows.append([t.number, t.state.name.lower(), *values, value, t.user_attrs.get("run_id")])
    return Table("", ["trial", "state", *names, "class_il_validation", "run_id"], rows)


def _plot(study: Study, trials: list[FrozenTrial], path: Path) -> Path:
    """Draw the accuracies in the order of the trials, and which settings mattered."""
    complete = _in_state(trials, "COMPLETE")
    pruned = [trial for trial in _in_state(trials, "PRUNED") if trial.intermediate_values]
    numbers = tuple(trial.number for trial in complete)
    values = tuple(trial.value or 0.0 for trial in complete)
    ends = tuple(trial.intermediate_values[max(trial.intermediate_values)] for trial in pruned)
    history = (
        Series(
            "best so far", numbers, tuple(max(values[: place + 1]) for place in range(len(values))), color=5
        ),
        Series("complete, after the last task", numbers, values, joined=False),
        Series("pruned, when it ended", tuple(t.number for t in pruned), ends, color=6, joined=False),
    )
    shares: dict[str, float] = {}
    matters = "What mattered: needs two different complete trials"
    if len(set(values)) > 1:
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        matters = "What mattered (fANOVA)"  # how much of the variance of the accuracy each setting explains
        shares = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    bars = (Series("share", tuple(shares), tuple(shares.values())),)
    charts = (
        Chart("History", "trial", "class-IL accuracy on validation, percent", history, ""),
        Chart(matters, "", "share of the variance explained", bars, "", "stack"),
    )
    return write_charts(charts, path, (".svg",), columns=2)[0]
