"""A study: trials of settings that Optuna proposes, each a run that is evaluated on a validation split.

A trial that was cut off is begun again with the same settings. Its run then continues from its checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gplasc._io.display import Display, Moment
from gplasc._io.lock import Held, locked
from gplasc.errors import UserError
from gplasc.learning import checkpoints
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.runs.workspace import Workspace
from gplasc.study.cell import Cell, Executor, Outcome
from gplasc.study.compute import compute
from gplasc.study.executors import Engine

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

_VALIDATION = 0.1  # share of the training samples that trials are evaluated on by default
_SETTINGS = "settings"  # attribute of the study: what all its trials have in common
_FOLDER = "folder"  # attribute of a trial: where it is computed
_ERROR = "error"  # attribute of a trial whose run failed


@dataclass(frozen=True)
class Search:
    """What is searched, and where.

    request: What the runs have in common.
    space: Values of each setting.
    trials: Number of trials in all, those of earlier commands included.
    out: Folder of the study.
    storage: Optuna's storage; default: an SQLite file in ``out``.
    seed: Seed of the search.
    """

    request: RunRequest
    space: Mapping[str, Sequence[Any]]
    trials: int
    out: Path
    storage: str | None = None
    seed: int = 0
    data_dir: Path | None = None
    device: str | None = None

    @property
    def workspace(self) -> Workspace:
        """Where the runs of the trials are stored."""
        return Workspace(self.out / "runs", self.data_dir, self.device, keep_memory=False)

    def resolve(self, params: Mapping[str, Any]) -> RunSpec:
        """Return the run of a trial, which is evaluated on a validation split.

        Raises:
            UserError: If a value is not allowed, or the request asks for the test split.
        """
        return replace(self.request, settings={**on_validation(self.request.settings), **params}).resolve()


def on_validation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with which a run is evaluated on a validation split.

    Raises:
        UserError: If they ask for the test split.
    """
    settings = dict(settings)
    if settings.get("data.evaluate_on", settings.get("evaluate_on", "validation")) != "validation":
        raise UserError(
            "a search must not look at the test split; leave out data.evaluate_on, the best settings are for it"
        )
    settings.pop("evaluate_on", None)
    share = settings.pop("validation", None) or settings.get("data.validation") or _VALIDATION
    return settings | {"data.evaluate_on": "validation", "data.validation": share}


def open_study(search: Search) -> Study:
    """Create or load the study of a search.

    Raises:
        UserError: If Optuna is missing, the storage cannot be used, or holds a study with other settings.
    """
    try:
        import optuna
    except ModuleNotFoundError:
        raise UserError(
            "gplasc tune needs Optuna, which is not installed; run: pip install 'gplasc[tune]'"
        ) from None
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    address = search.storage or f"sqlite:///{(search.out / 'study.db').absolute()}"
    try:
        study = optuna.create_study(
            study_name="gplasc",
            storage=address,
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1),
        )
    except (SQLAlchemyError, ValueError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the storage {address} cannot be used ({reason}); give an address that Optuna reads, such as "
            "sqlite:///study.db"
        ) from None
    settings = _identity(search)
    before = study.user_attrs.get(_SETTINGS, settings)
    if before != settings:
        changed = sorted(name for name in settings if before.get(name) != settings[name])
        raise UserError(
            f"the study in {address} was begun with another {', '.join(changed)}; choose another --out, or repeat "
            "the command that it was begun with"
        )
    study.set_user_attr(_SETTINGS, settings)
    return study


def _identity(search: Search) -> dict[str, Any]:
    """Return what all trials of a study share, as plain values."""
    request = search.request
    return {
        **{name: getattr(request, name) for name in ("stream", "method", "buffer", "seed", "scale")},
        "plugins": list(request.plugins),
        "settings": {name: str(value) for name, value in request.settings.items()},
        "space": {name: list(values) for name, values in search.space.items()},
        "search_seed": search.seed,
    }


def run_search(search: Search, engine: Engine, display: Display) -> Study:
    """Compute trials until there are enough; return the study.

    Args:
        search: What is searched.
        engine: What computes the trials.
        display: Shows the progress.

    Raises:
        UserError: If something is not allowed, or another command works in the folder.
        Interrupted: If a signal asked to stop; running trials are saved.
    """
    scale = search.request.scale
    engine.processes(scale)  # refuses options that do not fit before anything is written
    if search.trials < 1:
        raise UserError(f"--trials was given as {search.trials}; it must be at least 1")
    try:
        with locked(search.out / "lock", wait=False):
            study = open_study(search)
            executor = engine.open(scale)
            driver = _Driver(search, study, executor, display)
            compute(
                driver.cells(),
                search.workspace,
                executor,
                display,
                on_moment=driver.on_moment,
                on_outcome=driver.on_outcome,
            )
    except Held:
        raise UserError(
            f"another command is tuning in {search.out}; wait for it, or choose another --out"
        ) from None
    return study


def finished(study: Study) -> list[FrozenTrial]:
    """Return the trials that need no further work: complete, pruned, or failed by their own settings."""
    from optuna.trial import TrialState

    done = (TrialState.COMPLETE, TrialState.PRUNED)
    return [t for t in study.get_trials(deepcopy=False) if t.state in done or _ERROR in t.user_attrs]


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


class _Driver:
    """Asks Optuna for trials, and tells it how they go.

    The decision to prune a trial depends on its accuracies alone, not on when they arrive: those that did not arrive
    during the run are reported from its record. So a study of one worker is reproducible.
    """

    def __init__(self, search: Search, study: Study, executor: Executor, display: Display) -> None:
        self._search = search
        self._study = study
        self._executor = executor
        self._display = display
        self._running: dict[str, _Running] = {}  # by run id

    def cells(self) -> Iterator[Cell]:
        """Begin trials until there are enough."""
        self._begin_again()
        while (trial := self._next_trial()) is not None:
            try:
                spec = self._search.resolve(trial.params).identified(self._search.data_dir)
            except UserError as error:
                self._tell(trial, error=str(error))
                continue
            trial.set_user_attr("run_id", spec.run_id)
            if spec.run_id in self._running:
                self._running[spec.run_id].trials.append(trial)
            else:
                self._running[spec.run_id] = _Running([trial])
                yield Cell({name: str(value) for name, value in trial.params.items()}, spec)

    def _begin_again(self) -> None:
        """Queue the settings of trials that a killed or interrupted command of this folder left behind."""
        from optuna.trial import TrialState

        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get(_FOLDER) == str(self._search.out.absolute()):
                self._study.tell(trial.number, state=TrialState.FAIL)
                self._study.enqueue_trial(trial.params)

    def _next_trial(self) -> Trial | None:
        """Begin the next trial, or return None if all have been begun."""
        from optuna.distributions import CategoricalDistribution
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        search, study = self._search, self._study
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if len(finished(study)) + len(running) >= search.trials:
            return None
        # A sampler of its own for each trial: what it draws does not depend on where the study was interrupted.
        number = len(study.get_trials(deepcopy=False))
        digest = hashlib.sha256(f"{search.seed} {number}".encode()).digest()
        study.sampler = TPESampler(seed=int.from_bytes(digest[:4], "big"))
        trial = study.ask({name: CategoricalDistribution(tuple(v)) for name, v in search.space.items()})
        trial.set_user_attr(_FOLDER, str(search.out.absolute()))
        return trial

    def on_moment(self, cell: Cell, moment: Moment) -> None:
        """Report accuracies; end a run that is not promising."""
        if self._running[cell.run_id].report(moment.accuracies):
            self._executor.cancel(cell.run_id)

    def on_outcome(self, outcome: Outcome) -> None:
        """Tell how the trials of a run ended; those of an interrupted run are begun again by the next command."""
        run_id, record = outcome.cell.run_id, outcome.record
        running = self._running.pop(run_id)
        if record is not None and not (outcome.state == "already" and self._known(run_id)):
            rows = record.matrix["class_il"]
            running.report([fmean(value for value in row if value is not None) for row in rows])
        if outcome.state == "interrupted" and running.pruned:
            checkpoints.delete_all(self._search.workspace.out / run_id)
        if outcome.state != "interrupted" or running.pruned:
            for trial in running.trials:
                accuracy = None if record is None or running.pruned else record.metric()
                self._tell(trial, accuracy, "" if running.pruned else outcome.error)

    def _known(self, run_id: str) -> bool:
        """Tell whether an earlier trial with the same settings is complete; then there is nothing to save."""
        trials = self._study.get_trials(deepcopy=False)
        return any(t.state.name == "COMPLETE" and t.user_attrs.get("run_id") == run_id for t in trials)

    def _tell(self, trial: Trial, accuracy: float | None = None, error: str = "") -> None:
        """Tell the accuracy of a complete trial, or the error of one that failed; without them it was pruned."""
        from optuna.trial import TrialState

        if error:  # such as a loss that is not finite
            trial.set_user_attr(_ERROR, error)
            self._study.tell(trial, state=TrialState.FAIL)
            ending = f"failed: {error}"
        elif accuracy is None:
            self._study.tell(trial, state=TrialState.PRUNED)
            ending = "pruned"
        else:
            self._study.tell(trial, accuracy)
            ending = f"{accuracy:.2f}"
        said = ", ".join(f"{name}={value}" for name, value in trial.params.items())
        self._display.say(f"[{len(finished(self._study))}/{self._search.trials}] {said}: {ending}")
