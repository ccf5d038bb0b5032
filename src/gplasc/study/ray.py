"""Runs as tasks of a Ray cluster: one task a run, on whichever node has the cores and GPUs that it needs.

The package itself travels in the runtime environment, a user's own source files with the task. A run whose worker or
node dies is started again by Ray; it continues from its checkpoint if the folder of the runs is shared among the
nodes. Otherwise it computes in a temporary folder of its node, and its files are sent back at the end; with a storage
its checkpoints are kept there, and it continues on any node.
"""

from __future__ import annotations

import getpass
import hashlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gplasc
from gplasc._io.display import Moment
from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.results.record import RECORD
from gplasc.runs.workspace import Workspace
from gplasc.settings.components import is_file, read_from_copies, user_sources
from gplasc.study._storage import Storage
from gplasc.study.cell import Cell, Executor, Listener, Outcome
from gplasc.study.executors import Engine
from gplasc.study.processes import Reporter, run_cell

_LOOK_EVERY = 0.25  # seconds between two looks at tasks and progress
_RETRIES = 3  # how often a run starts again after its worker or node died


class RayExecutor(Executor):
    """An executor with the nodes of a Ray cluster; the engine says which, and what each run needs of it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        cpus, gpus = 1.0 if engine.cpus is None else engine.cpus, engine.gpus or 0.0
        if cpus <= 0:
            raise UserError(f"--cpus was given as {cpus:g}; each run needs more than 0")
        if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
            raise UserError(f"--gpus was given as {gpus:g}; allowed: a part of 1, or a whole number")
        try:
            import ray
        except ModuleNotFoundError:
            raise UserError(
                "--engine ray needs Ray, which is not installed; run: pip install 'gplasc[ray]'"
            ) from None
        self._storage = None if engine.storage is None else Storage(engine.storage)
        if self._storage is not None:
            self._storage.check()
        self._ray: Any = ray
        package = str(Path(gplasc.__file__).parent)
        try:
            ray.init(
                address=engine.address,
                runtime_env={"py_modules": [package], "excludes": ["**/__pycache__", "*.pyc"]},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"the Ray cluster {engine.address or 'of this machine'} cannot be used ({reason}); check --address "
                "with `ray status --address ADDRESS`"
            ) from None
        self._wanted = {"CPU": cpus, "GPU": gpus}
        if not self._room():
            warnings.warn(
                f"no node of the cluster has {cpus:g} cores and {gpus:g} GPUs now; the runs wait until one joins",
                stacklevel=2,
            )
        here = ray.get_runtime_context().get_node_id()
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        self._board: Any = self._ray.remote(num_cpus=0, scheduling_strategy=near)(_Board).remote()
        self._task: Any = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=_RETRIES)(_compute)
        self._num_threads = engine.threads or max(1, int(cpus))
        self._marks: dict[Path, Path] = {}
        self._sources: dict[str, dict[str, str]] = {}
        self._waiting: dict[Any, _Waiting] = {}  # by the reference of the task
        self._closed = threading.Event()
        self._collector = threading.Thread(target=self._collect, name="ray", daemon=True)
        self._collector.start()

    @property
    def slots(self) -> int:
        """How many cells the nodes of the cluster have room for now, at least 1."""
        return max(1, self._room())

    def _room(self) -> int:
        """Return for how many cells there is room on the nodes of the cluster."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        wanted = [(kind, amount) for kind, amount in self._wanted.items() if amount]
        return sum(min(int(node.get(kind, 0) / amount) for kind, amount in wanted) for node in nodes)

    def submit(self, cell: Cell, workspace: Workspace, listener: Listener) -> Future[Outcome]:
        """Hand a cell to the cluster, which computes it as soon as a node has room."""
        future: Future[Outcome] = Future()
        data_dir = None if workspace.data_dir is None else Path(workspace.data_dir).absolute()
        workspace = replace(workspace, out=workspace.out.absolute(), data_dir=data_dir)
        with self._lock:
            self._cancelled.discard(cell.run_id)
            self._start(_Waiting(cell, workspace, listener, future))
        return future

    def cancel(self, run_id: str) -> None:
        """Cancel the task of one run: it saves itself and ends."""
        with self._lock:
            self._cancelled.add(run_id)
            for reference, waiting in self._waiting.items():
                if waiting.cell.run_id == run_id:
                    self._ray.cancel(reference)

    def stop(self, *, now: bool = False) -> None:
        """Cancel all tasks: running ones save themselves and end, or are killed if ``now``."""
        with self._lock:
            self._stopping = True
            for reference in self._waiting:
                self._ray.cancel(reference, force=now)

    def close(self) -> None:
        """Disconnect from the cluster."""
        self._closed.set()
        self._collector.join()
        for mark in self._marks.values():
            mark.unlink(missing_ok=True)
        self._ray.kill(self._board)
        self._ray.shutdown()

    def _start(self, waiting: _Waiting) -> None:
        cell, workspace = waiting.cell, waiting.workspace
        if self._ending(cell):
            waiting.future.set_result(Outcome(cell, "interrupted"))
            return
        reference = self._task.options(name=cell.text).remote(
            cell,
            workspace,
            self._board,
            sources=self._read_sources(cell),
            mark=None if self._storage else self._mark(workspace.out),
            threads=self._num_threads,
            storage=self._storage,
        )
        self._waiting[reference] = waiting

    def _read_sources(self, cell: Cell) -> dict[str, dict[str, str]]:
        """Return the user's files that the settings name, by path, with what they import from their own folders."""
        config = cell.spec.config
        names = [config.method, *config.plugins, config.model.encoder.partition(":")[0]]
        for name in filter(is_file, names):
            if name not in self._sources:
                self._sources[name] = user_sources(name)
        return {name: self._sources[name] for name in names if is_file(name)}

    def _mark(self, out: Path) -> Path:
        """Return a file in the folder of the runs; a node that finds it shares the folder."""
        if out not in self._marks:
            self._marks[out] = write_atomic(out / f".ray-{uuid.uuid4().hex}", "")
        return self._marks[out]

    def _collect(self) -> None:
        """Until the executor is closed, pass on progress and outcomes."""
        while not self._closed.is_set():
            with self._lock:
                references = list(self._waiting)
            if not references:
                time.sleep(_LOOK_EVERY)
                continue
            done, _ = self._ray.wait(references, timeout=_LOOK_EVERY)
            self._pass_on_progress()
            for reference in done:
                with self._lock:
                    waiting = self._waiting.pop(reference)
                outcome = self._outcome(waiting, reference)
                with self._lock:
                    cut_off = outcome.state == "interrupted" and not self._ending(waiting.cell)
                    if cut_off and waiting.starts < _RETRIES:
                        self._start(replace(waiting, starts=waiting.starts + 1))  # its node was asked to end
                    else:
                        waiting.future.set_result(outcome)

    def _pass_on_progress(self) -> None:
        from ray.exceptions import RayError

        with suppress(RayError):  # no progress is shown; the runs go on
            moments = self._ray.get(self._board.take.remote(), timeout=5)
            with self._lock:
                waiting = list(self._waiting.values())
            for one in waiting:
                if one.cell.run_id in moments:
                    one.listener(one.cell, moments[one.cell.run_id])

    def _outcome(self, waiting: _Waiting, reference: Any) -> Outcome:
        from ray.exceptions import RayError, TaskCancelledError, WorkerCrashedError

        cell = waiting.cell
        try:
            outcome: Outcome
            outcome, files = self._ray.get(reference)
            for name in sorted(files, key=RECORD.__eq__):  # the record last: it says that the rest is there
                write_atomic(waiting.workspace.out / cell.run_id / name, files[name])
            if self._storage is not None and files:
                self._storage.delete(cell.run_id)
            return replace(outcome, cell=cell)
        except TaskCancelledError:
            return Outcome(cell, "interrupted")
        except WorkerCrashedError:
            if self._ending(cell):
                return Outcome(cell, "interrupted")
            error = f"its worker died {_RETRIES + 1} times (out of memory?)"
        except RayError as problem:
            error = f"{type(problem).__name__}: {str(problem).strip().rpartition(chr(10))[2]}"
        except OSError as problem:
            error = str(problem)
        return Outcome(cell, "failed", error=error)


@dataclass(frozen=True)
class _Waiting:
    """A cell whose outcome is awaited."""

    cell: Cell
    workspace: Workspace
    listener: Listener
    future: Future[Outcome]
    starts: int = 0


class _Board:
    """An actor that keeps the latest progress of each run until the driver takes it."""

    def __init__(self) -> None:
        self._moments: dict[str, Moment] = {}

    def put(self, run_id: str, moment: Moment) -> None:
        self._moments[run_id] = moment

    def take(self) -> dict[str, Moment]:
        moments, self._moments = self._moments, {}
        return moments


# ---- in the worker -------------------------------------------------------------------------------------------------


def _compute(
    cell: Cell,
    workspace: Workspace,
    board: Any,
    *,
    sources: Mapping[str, Mapping[str, str]],
    mark: Path | None,
    threads: int,
    storage: Storage | None,
) -> tuple[Outcome, dict[str, bytes]]:
    """Compute one run; return its files too if its folder is not shared: then the file ``mark`` does not exist here."""
    import torch

    start = time.monotonic()
    # A node started in the background ignores SIGINT, by which Ray cancels a task.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(threads)
    shared = mark is not None and mark.exists()
    if not shared:
        workspace = replace(workspace, out=_own_folder() / "runs")
    folder = workspace.out / cell.run_id
    read_from_copies(_copy(sources))
    with _output_restored():
        if storage is not None:
            try:
                storage.fetch(folder)
            except UserError as error:
                return Outcome(cell, "failed", error=str(error)), {}
            workspace = replace(workspace, on_saved=storage.keep)
        outcome = run_cell(cell, workspace, Reporter(lambda moment: board.put.remote(cell.run_id, moment)))
    files: dict[str, bytes] = {}
    if not shared and outcome.state == "done":
        paths = [path for path in folder.iterdir() if path.is_file() and path.stat().st_size]
        files = {path.name: path.read_bytes() for path in paths}
        shutil.rmtree(folder, ignore_errors=True)
    return replace(outcome, seconds=time.monotonic() - start), files


def _own_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"gplasc-{getpass.getuser()}"


def _copy(sources: Mapping[str, Mapping[str, str]]) -> dict[str, Path]:
    """Write source files into this node's folder, named by their content; return where each is."""
    copies = {}
    for name, texts in sources.items():
        folder = _own_folder() / "sources" / hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
        for path, text in texts.items():
            write_atomic(folder / path, text)
        copies[name] = folder / Path(name).name
    return copies


@contextmanager
def _output_restored() -> Iterator[None]:
    """Send standard output and error back to where Ray collects them after a run has logged into its folder."""
    kept = [(os.dup(number), number) for number in (1, 2)]
    try:
        yield
    finally:
        for copy, number in kept:
            os.dup2(copy, number)
            os.close(copy)
