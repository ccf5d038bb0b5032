"""`gplasc tune`: a search for settings, ending in a file of settings, a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Marked, Table
from gplasc.errors import UserError
from gplasc.runs.spec import RunRequest
from gplasc.study.search import Search, finished, on_validation, run_search
from gplasc.study.search_plot import plot_study

if TYPE_CHECKING:
    from optuna import Study

_SHOWN = 5


def tune(search: Search, workers: int = 1) -> list[Path]:
    """Search, print the best trials, and write their settings and a picture into the folder of the study.

    Args:
        search: What is searched.
        workers: Trials computed at the same time.

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
    checked = on_validation(search.arguments)
    for name, values in search.space.items():  # a wrong name or value ends the command, not each trial
        for value in values:
            RunRequest(**{**checked, "settings": checked["settings"] | {name: value}}).resolve()
    study = run_search(search, workers)
    trials = finished(study)
    complete = sorted((t for t in trials if t.value is not None and t.state.name == "COMPLETE"), key=_order)
    if not complete:
        raise UserError(f"none of the {len(trials)} trials was completed; see {search.out}/trials.csv")
    _table(study, list(search.space)).print()
    return [
        write_atomic(search.out / "best.toml", _best(search, complete[0].params, complete[0].number)),
        write_atomic(search.out / "trials.csv", _trials(study, list(search.space)).to_csv()),
        plot_study(study, search.out / "study.svg"),
    ]


def _order(trial: Any) -> tuple[float, int]:
    return (-trial.value, trial.number)


def _best(search: Search, params: dict[str, Any], number: int) -> str:
    """Return the complete settings of the best trial as TOML, for runs that are evaluated on the test split."""
    given = search.arguments["settings"]
    kept = {n: v for n, v in given.items() if n.rpartition(".")[2] not in ("validation", "evaluate_on")}
    config = RunRequest(**{**search.arguments, "settings": kept | params}).resolve().config
    chosen = ", ".join(f"{name}={value}" for name, value in params.items())
    return f"# Trial {number} of {search.trials}, chosen on a validation split: {chosen}\n{config.to_toml()}"


def _table(study: Study, names: list[str]) -> Table:
    complete = sorted((t for t in finished(study) if t.state.name == "COMPLETE"), key=_order)
    counts = [t.state.name for t in finished(study)]
    rows: list[list[Any]] = [
        [t.number, *(t.params[name] for name in names), f"{t.value:.2f}"] for t in complete[:_SHOWN]
    ]
    rows[0] = [Marked(str(value), "best") for value in rows[0]]
    said = (
        f"{counts.count('COMPLETE')} complete, {counts.count('PRUNED')} pruned, {counts.count('FAIL')} failed"
    )
    columns: list[Column | str] = [Column("trial", "left"), *names, "class-IL on validation"]
    return Table(f"the best of {len(counts)} trials ({said}), percent", columns, rows)


def _trials(study: Study, names: list[str]) -> Table:
    rows = [
        [
            t.number,
            t.state.name.lower(),
            *(t.params.get(n) for n in names),
            t.value if t.state.name == "COMPLETE" else None,
            t.user_attrs.get("run_id"),
        ]
        for t in finished(study)
    ]
    return Table("", ["trial", "state", *names, "class_il_validation", "run_id"], rows)
