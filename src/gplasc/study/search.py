"""`gplasc tune`: trials of settings that Optuna proposes, each a run that is evaluated on a validation split.

A trial that was cut off is begun again with the same settings. Its run then continues from its checkpoint.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gplasc._io.display import Display, Moment
from gplasc._io.files import write_atomic
from gplasc._io.lock import Held, locked
from gplasc._io.table import Table
from gplasc.errors import UserError
from gplasc.learning import checkpoints
from gplasc.learning.devices import check_device, computes_bfloat16
from gplasc.runs.spec import RunRequest, RunSpec, identify_all
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Config
from gplasc.study.cell import Cell, Executor, Outcome, named_values
from gplasc.study.compute import compute
from gplasc.study.executors import Engine

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

_VALIDATION = 0.1  # share of the training samples that trials are evaluated on by default
_SETTINGS = "settings"  # attribute of the study: what all its trials have in common
_NATIVE = "computes_bfloat16"  # attribute of the study: whether its first device does
_FOLDER = "folder"  # attribute of a trial: where it is computed
_ERROR = "error"  # attribute of a trial whose run failed
_SHOWN = 5  # trials in the printed table


@dataclass(frozen=True)
class Search:
    """What is searched, in how many trials in all, and where; the options of `gplasc tune` explain it."""

    request: RunRequest
    space: Mapping[str, Sequence[Any]]
    trials: int
    out: Path
    storage: str | None = None
    seed: int = 0
    data_dir: Path | None = None
    device: str | None = None
    native: bool = False
    """Whether the precision "auto" is that of devices which compute bfloat16."""

    @property
    def workspace(self) -> Workspace:
        """Where the runs of the trials are stored."""
        return Workspace(self.out / "runs", self.data_dir, self.device, keep_memory=False)

    @property
    def address(self) -> str:
        """Where Optuna keeps the study."""
        return self.storage or f"sqlite:///{(self.out / 'study.db').absolute()}"

    def resolve(self, params: Mapping[str, Any]) -> RunSpec:
        """Return the run of a trial, which is evaluated on a validation split."""
        return self._resolve({**on_validation(self.request.settings), **params})

    def best(self, params: Mapping[str, Any]) -> Config:
        """Return the settings of a trial for a run that is evaluated on the test split."""
        given = self.request.settings.items()
        kept = {n: value for n, value in given if n.rpartition(".")[2] not in ("validation", "evaluate_on")}
        return self._resolve({**kept, **params}).config

    def _resolve(self, settings: Mapping[str, Any]) -> RunSpec:
        return replace(self.request, settings=settings).resolve().settled(native=self.native)


def on_validation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with which a run is evaluated on a validation split; refuse those that ask for the test split."""
    settings = dict(settings)
    if settings.get("data.evaluate_on", settings.get("evaluate_on", "validation")) != "validation":
        raise UserError(
            "a search must not look at the test split; leave out data.evaluate_on, the best settings are for it"
        )
    settings.pop("evaluate_on", None)
    share = settings.pop("validation", None) or settings.get("data.validation") or _VALIDATION
    return settings | {"data.evaluate_on": "validation", "data.validation": share}


def tune(search: Search, engine: Engine, display: Display) -> list[Path]:
    """Search, print the best trials, and write ``best.toml`` and ``trials.csv``; return their paths."""
    for note in search.request.resolve().notes:
        display.say(note)
    if not search.space:
        raise UserError(
            "the paper searched no setting of this method; give some with --space NAME=VALUE,VALUE"
        )
    for name, values in search.space.items():  # a wrong name or value ends the command, not each trial
        for value in values:
            search.resolve({name: value})
    study = _run_search(search, engine, display)
    search = replace(search, native=_is_native(study, search))
    trials = _finished(study)
    table = write_atomic(search.out / "trials.csv", _table("", trials, search.space).to_csv())
    complete = sorted(_in_state(trials, "COMPLETE"), key=lambda trial: (-(trial.value or 0.0), trial.number))
    if not complete:
        raise UserError(f"none of the {len(trials)} trials was completed; see {table}")
    counts = ", ".join(f"{len(_in_state(trials, s))} {s.lower()}" for s in ("COMPLETE", "PRUNED", "FAIL"))
    title = f"the best of {len(trials)} trials ({counts}), percent"
    _table(title, complete[:_SHOWN], search.space, _shares(study, complete)).print()
    best = write_atomic(search.out / "best.toml", _best(search, complete[0].params, complete[0].number))
    return [best, table]


def _run_search(search: Search, engine: Engine, display: Display) -> Study:
    """Compute trials until there are enough; return the study."""
    scale = search.request.scale
    engine.processes(scale)  # refuses options that do not fit before anything is written
    if search.trials < 1:
        raise UserError(f"--trials was given as {search.trials}; it must be at least 1")
    try:
        with locked(search.out / "lock", wait=False):
            study = _open_study(search)
            search = replace(search, native=_is_native(study, search))
            driver = _Driver(search, study, engine.open(scale), display)
            compute(
                driver.cells(),
                search.workspace,
                driver.executor,
                display,
                on_moment=driver.on_moment,
                on_outcome=driver.on_outcome,
            )
    except Held:
        raise UserError(
            f"another command is tuning in {search.out}; wait for it, or choose another --out"
        ) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("optuna", "sqlalchemy"):
            raise
        raise _unusable(search, error) from None
    return study


def _unusable(search: Search, error: Exception) -> UserError:
    """Return the error for a storage that is damaged, or that Optuna cannot read."""
    reason = str(error).partition("\n")[0]
    return UserError(
        f"the storage {search.address} cannot be used ({reason}); give an address that Optuna reads, such as "
        "sqlite:///study.db, or delete a damaged file: complete runs are not computed again"
    )


def _is_native(study: Study, search: Search) -> bool:
    """Return what the command that began the study noted of its device; one of version 0.2.0 noted nothing."""
    if _NATIVE not in study.user_attrs:
        native = not _trials(study) and computes_bfloat16(check_device(search.device))
        study.set_user_attr(_NATIVE, native)
    return bool(study.user_attrs[_NATIVE])


def _open_study(search: Search) -> Study:
    """Create or load the study of a search; it must have been begun with the same settings."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise UserError(
            "gplasc tune needs Optuna, which is not installed; run: pip install 'gplasc[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        if search.storage is None:
            with closing(sqlite3.connect(search.out / "study.db")) as database:
                ((state,), *_) = database.execute("PRAGMA integrity_check").fetchall()
            if state != "ok":
                raise ValueError(state)
        study = optuna.create_study(
            study_name="gplasc",
            storage=search.address,
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1),
        )
        begun_with = study.user_attrs.get(_SETTINGS, {})
        _trials(study)
    except Exception as error:  # those of Optuna, SQLAlchemy, SQLite, and what damaged values cause
        raise _unusable(search, error) from None
    request = search.request
    (spec,) = identify_all([request.resolve()], data_dir=search.data_dir)
    settings = {
        **{name: getattr(request, name) for name in ("stream", "method", "buffer", "seed", "scale")},
        "plugins": list(request.plugins),
        "settings": {name: str(value) for name, value in request.settings.items()},
        "space": {name: list(values) for name, values in search.space.items()},
        "search_seed": search.seed,
        **{f"version of {name}": digest for name, digest in spec.config.identity.items()},
    }
    before = settings | begun_with
    if before != settings:
        changed = sorted(name for name in settings if before[name] != settings[name])
        raise UserError(
            f"the study in {search.address} was begun with another {', '.join(changed)}; choose another --out, or "
            "repeat the command that it was begun with"
        )
    study.set_user_attr(_SETTINGS, settings)
    return study


def _in_state(trials: Sequence[FrozenTrial], *states: str) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.state.name in states]


def _trials(study: Study) -> list[FrozenTrial]:
    return list(study.get_trials(deepcopy=False))


def _finished(study: Study) -> list[FrozenTrial]:
    """Return the trials that need no further work: complete, pruned, or failed by their own settings."""
    return [t for t in _trials(study) if t.state.name in ("COMPLETE", "PRUNED") or _ERROR in t.user_attrs]


@dataclass
class _Running:
    """A run and the trials that wait for it, which have the same settings; the first one reports its accuracies."""

    trials: list[Trial]
    reported: int = 0
    pruned: bool = False

    def report(self, accuracies: Sequence[float]) -> bool:
        """Report the accuracies after the first tasks; return whether one of them is the first that is too low."""
        before = self.pruned
        while self.reported < len(accuracies) and not self.pruned:
            self.trials[0].report(accuracies[self.reported], self.reported)
            self.reported += 1
            self.pruned = self.trials[0].should_prune()
        return self.pruned and not before


@dataclass
class _Driver:
    """Asks Optuna for trials, and tells it how they go.

    The decision to prune a trial depends on its accuracies alone, not on when they arrive: those that did not arrive
    during the run are reported from its record. So a study of one worker is reproducible.
    """

    search: Search
    study: Study
    executor: Executor
    display: Display
    _running: dict[str, _Running] = field(default_factory=dict)  # by run id

    def cells(self) -> Iterator[Cell]:
        """Begin trials until there are enough."""
        self._begin_again()
        while (trial := self._next_trial()) is not None:
            try:
                spec = self.search.resolve(trial.params).identified(self.search.data_dir)
            except UserError as error:
                self._tell(trial, error=str(error))
                continue
            begun_with = self.study.user_attrs[_SETTINGS]
            for name, digest in spec.config.identity.items():
                if begun_with.get(f"version of {name}", digest) != digest:
                    raise UserError(
                        f"{name} changed during the search; restore it and repeat the command, or choose another --out"
                    )
            trial.set_user_attr("run_id", spec.run_id)
            if spec.run_id in self._running:
                self._running[spec.run_id].trials.append(trial)
            else:
                self._running[spec.run_id] = _Running([trial])
                yield Cell({name: str(value) for name, value in trial.params.items()}, spec)

    def _begin_again(self) -> None:
        """Queue the settings of trials that a killed or interrupted command of this folder left behind."""
        for trial in _in_state(_trials(self.study), "RUNNING"):
            if trial.user_attrs.get(_FOLDER) == str(self.search.out.absolute()):
                self._tell_state(trial, "FAIL")
                self.study.enqueue_trial(trial.params)

    def _next_trial(self) -> Trial | None:
        """Begin the next trial, or return None if all have been begun."""
        from optuna.distributions import CategoricalDistribution
        from optuna.samplers import TPESampler

        search, study = self.search, self.study
        begun = _trials(study)
        if len(_finished(study)) + len(_in_state(begun, "RUNNING")) >= search.trials:
            return None
        # A sampler of its own for each trial: what it draws does not depend on where the study was interrupted.
        digest = hashlib.sha256(f"{search.seed} {len(begun)}".encode()).digest()
        study.sampler = TPESampler(seed=int.from_bytes(digest[:4], "big"))
        trial = study.ask({name: CategoricalDistribution(tuple(v)) for name, v in search.space.items()})
        trial.set_user_attr(_FOLDER, str(search.out.absolute()))
        return trial

    def on_moment(self, cell: Cell, moment: Moment) -> None:
        """Report accuracies; end a run that is not promising."""
        if self._running[cell.run_id].report(moment.accuracies):
            self.executor.cancel(cell.run_id)

    def on_outcome(self, outcome: Outcome) -> None:
        """Tell how the trials of a run ended; those of an interrupted run are begun again by the next command."""
        run_id, record = outcome.cell.run_id, outcome.record
        running = self._running.pop(run_id)
        if record is not None and not (outcome.state == "already" and self._known(run_id)):
            rows = record.matrix["class_il"]
            running.report([fmean(value for value in row if value is not None) for row in rows])
        if outcome.state == "interrupted" and not running.pruned:
            return
        if outcome.state == "interrupted":
            checkpoints.delete_all(self.search.workspace.out / run_id)
        for trial in running.trials:
            accuracy = None if record is None or running.pruned else record.metric()
            self._tell(trial, accuracy, "" if running.pruned else outcome.error)

    def _known(self, run_id: str) -> bool:
        """Tell whether an earlier trial with the same settings is complete; then there is nothing to save."""
        complete = _in_state(_trials(self.study), "COMPLETE")
        return any(trial.user_attrs.get("run_id") == run_id for trial in complete)

    def _tell(self, trial: Trial, accuracy: float | None = None, error: str = "") -> None:
        """Tell the accuracy of a complete trial, or the error of one that failed; without them it was pruned."""
        if error:  # such as a loss that is not finite
            trial.set_user_attr(_ERROR, error)
            self._tell_state(trial, "FAIL")
            ending = f"failed: {error}"
        elif accuracy is None:
            self._tell_state(trial, "PRUNED")
            ending = "pruned"
        else:
            self.study.tell(trial, accuracy)
            ending = f"{accuracy:.2f}"
        values = named_values(trial.params)
        self.display.say(f"[{len(_finished(self.study))}/{self.search.trials}] {values}: {ending}")

    def _tell_state(self, trial: Trial | FrozenTrial, name: str) -> None:
        from optuna.trial import TrialState

        self.study.tell(trial.number, state=TrialState[name])


def _best(search: Search, params: Mapping[str, Any], number: int) -> str:
    """Return the complete settings of the best trial as TOML, for runs that are evaluated on the test split."""
    head = f"# Trial {number} of {search.trials}, chosen on a validation split: {named_values(params)}"
    return f"{head}\n{search.best(params).to_toml()}"


def _table(
    title: str, trials: Sequence[FrozenTrial], names: Iterable[str], notes: Sequence[str] = ()
) -> Table:
    """Return a line for each trial; a pruned one has no accuracy after the last task."""
    values = [t.value if t.state.name == "COMPLETE" else None for t in trials]
    rows = [
        [t.number, t.state.name.lower(), *map(t.params.get, names), value, t.user_attrs.get("run_id")]
        for t, value in zip(trials, values, strict=True)
    ]
    return Table(title, ["trial", "state", *names, "class_il_validation", "run_id"], rows, notes)


def _shares(study: Study, complete: Sequence[FrozenTrial]) -> list[str]:
    """Say which settings mattered, if there are two different complete trials."""
    if len({trial.value for trial in complete}) < 2:
        return []
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    shares = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    texts = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return [f"Share of the variance of the accuracy that each setting explains (fANOVA): {texts}."]
