"""A study: trials of settings, each a run that is evaluated on a validation split, by several workers at a time.

A trial that was cut off is begun again with the same settings. Its run then continues from its checkpoint.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.display import Quiet
from gplasc._io.lock import Held, locked
from gplasc.errors import Interrupted, UserError
from gplasc.learning import Callback, Learner, checkpoints
from gplasc.runs.execute import Result, execute
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.runs.workspace import Busy, Workspace

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

VALIDATION = 0.1
"""Share of the training samples that trials are evaluated on, unless the user gives another."""
_RETRY_EVERY = 1.0  # seconds between two tries of a run that another worker is computing
_SETTINGS = "settings"  # attribute of the study: what all its trials have in common
_FOLDER = "folder"  # attribute of a trial: where its worker computes
_ERROR = "error"  # attribute of a trial whose run failed


@dataclass(frozen=True)
class Search:
    """What is searched, where, and for how long.

    arguments: What `gplasc.runs.spec.RunRequest` is called with, without what is searched.
    space: Values of each setting.
    trials: Number of trials in all, those of earlier commands included.
    out: Folder of the study.
    storage: Optuna's storage; default: an SQLite file in ``out``.
    seed: Seed of the search.
    """

    arguments: Mapping[str, Any]
    space: Mapping[str, Sequence[Any]]
    trials: int
    out: Path
    storage: str | None = None
    seed: int = 0
    data_dir: Path | None = None
    device: str | None = None
    threads: int | None = None
    quiet: bool = False

    @property
    def address(self) -> str:
        """The address of Optuna's storage."""
        return self.storage or f"sqlite:///{(self.out / 'study.db').absolute()}"


def on_validation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `gplasc.runs.spec.RunRequest` that evaluate on a validation split.

    Raises:
        UserError: If they ask for the test split.
    """
    settings = dict(arguments["settings"])
    if settings.get("data.evaluate_on", settings.get("evaluate_on", "validation")) != "validation":
        raise UserError(
            "a search must not look at the test split; leave out data.evaluate_on, the best settings are for it"
        )
    settings.pop("evaluate_on", None)
    share = settings.pop("validation", None) or settings.get("data.validation") or VALIDATION
    settings |= {"data.evaluate_on": "validation", "data.validation": share}
    return {**arguments, "settings": settings}


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
    try:
        study = optuna.create_study(
            study_name="gplasc",
            storage=search.address,
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1),
        )
    except (SQLAlchemyError, ValueError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the storage {search.address} cannot be used ({reason}); give an address that Optuna reads, such as "
            "sqlite:///study.db"
        ) from None
    settings = _identity(search)
    before = study.user_attrs.get(_SETTINGS, settings)
    if before != settings:
        changed = sorted(name for name in settings if before.get(name) != settings[name])
        raise UserError(
            f"the study in {search.address} was begun with another {', '.join(changed)}; choose another --out, or "
            "repeat the command that it was begun with"
        )
    study.set_user_attr(_SETTINGS, settings)
    return study


def run_search(search: Search, workers: int) -> Study:
    """Compute trials until there are enough; return the study.

    Args:
        search: What is searched.
        workers: Trials computed at the same time, in processes.

    Raises:
        UserError: If something is not allowed, or another command works in the folder.
        Interrupted: If a signal asked to stop; running trials are saved.
    """
    if workers < 1 or search.trials < 1:
        raise UserError(f"--workers is {workers} and --trials is {search.trials}; both must be at least 1")
    try:
        with locked(search.out / "lock", wait=False):
            study = open_study(search)
            _begin_again(study, search)
            _work_in_processes(search, workers)
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


def _identity(search: Search) -> dict[str, Any]:
    """Return what all trials of a study share, as plain values."""
    arguments = {name: value for name, value in search.arguments.items() if name != "settings"}
    shared = {**arguments, "plugins": list(search.arguments["plugins"])}
    shared["settings"] = {name: str(value) for name, value in search.arguments["settings"].items()}
    shared["space"] = {name: list(values) for name, values in search.space.items()}
    return shared | {"search_seed": search.seed}


def _begin_again(study: Study, search: Search) -> None:
    """Queue the settings of trials that a killed or interrupted command of this folder left behind."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if trial.user_attrs.get(_FOLDER) == str(search.out.absolute()):
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params)


def _work_in_processes(search: Search, workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work, args=(search,)) for _ in range(workers)]
    stops = 0

    def stop(number: int, frame: object) -> None:
        nonlocal stops
        stops += 1
        for process in processes:
            if process.is_alive():
                process.terminate()

    main = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)} if main else {}
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stops:
        raise Interrupted
    codes = {process.exitcode for process in processes} - {0}
    if codes:
        raise UserError(
            f"a worker ended with exit code {codes.pop()}; run the same command again to continue"
        )


# ---- in the worker process -----------------------------------------------------------------------------------------


def _work(search: Search) -> None:
    """Compute trials until there are enough."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which then sends SIGTERM
    signal.signal(signal.SIGTERM, _end)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if search.threads is not None:
        torch.set_num_threads(search.threads)
    study = open_study(search)
    log = (search.out / "log.txt").open("a", encoding="utf-8")
    warnings.showwarning = lambda message, *_: print(message, file=log, flush=True)
    try:
        while (trial := _next_trial(study, search)) is not None:
            _compute(study, trial, search)
    except Interrupted:
        return


def _end(number: int, frame: object) -> None:
    raise Interrupted


def _end_with(parent: Any) -> None:
    """When the parent has ended, save and end."""
    parent.join()
    signal.raise_signal(signal.SIGTERM)


def _next_trial(study: Study, search: Search) -> Trial | None:
    """Begin the next trial, or return None if all have been begun; one worker of the folder at a time."""
    from optuna.distributions import CategoricalDistribution
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    with locked(search.out / "next.lock"):
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


def _compute(study: Study, trial: Trial, search: Search) -> None:
    """Compute the run of a trial and tell the study its accuracy."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    arguments = on_validation(search.arguments)
    arguments["settings"] |= trial.params
    said = ", ".join(f"{name}={value}" for name, value in trial.params.items())
    try:
        resolved = RunRequest(**arguments).resolve().identified(search.data_dir)
        folder = search.out / "runs" / resolved.config.run_id
        trial.set_user_attr("run_id", resolved.config.run_id)
        try:
            result = _execute_when_free(resolved, trial, search)
        except TrialPruned:
            checkpoints.delete_all(folder)
            study.tell(trial, state=TrialState.PRUNED)
            ending = "pruned"
        else:
            accuracy = result.metric()
            study.tell(trial, accuracy)
            ending = f"{accuracy:.2f}"
    except UserError as error:  # such as a loss that is not finite
        trial.set_user_attr(_ERROR, str(error))
        study.tell(trial, state=TrialState.FAIL)
        ending = f"failed: {error}"
    if not search.quiet:
        print(f"[{len(finished(study))}/{search.trials}] {said}: {ending}", file=sys.stderr, flush=True)


def _execute_when_free(resolved: RunSpec, trial: Trial, search: Search) -> Result:
    """Compute a run; wait if another worker has drawn the same settings and is computing it."""
    while True:
        try:
            return execute(
                resolved,
                Workspace(
                    search.out / "runs",
                    search.data_dir,
                    search.device,
                    keep_memory=False,
                    note_unfinished=False,
                ),
                callbacks=[_Pruning(trial)],
                display=Quiet(),
            )
        except Busy:
            time.sleep(_RETRY_EVERY)


class _Pruning(Callback):
    """Reports the class-incremental validation accuracy after each task, and ends a trial that is not promising."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._reported = 0

    def on_task_end(self, learner: Learner) -> None:
        """Report, also the tasks before the run was continued."""
        from optuna import TrialPruned

        rows = learner.class_il
        for task in range(self._reported, len(rows)):
            self._trial.report(sum(rows[task]) / len(rows[task]), task)
        self._reported = len(rows)
        if self._trial.should_prune():
            raise TrialPruned
