"""Runs in processes of this machine: several at a time, each with its share of the threads.

Short runs follow one another in one process, which saves the start-up of torch and its kernels. A run that crashes
or is killed affects no other, and a process that is no longer young is replaced, so that its memory is returned.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from gplasc._io.display import Display, Moment, Shown
from gplasc.errors import UserError
from gplasc.runs.workspace import Busy, Workspace
from gplasc.settings.components import error_in_user_file
from gplasc.study.cell import Cell, Executor, Listener, Outcome

_LOG = "log.txt"
# Imported once by the fork server.
_PRELOADED = ("gplasc.runs.execute", "gplasc.methods.co2l", "gplasc.plugins.gplasc")
_REPORT_EVERY = 0.5  # seconds between two reports of a run
_YOUNG = 120.0  # seconds during which a process may start another run


class Processes(Executor):
    """An executor with processes of this machine, each with some threads of torch; default: OMP_NUM_THREADS."""

    def __init__(self, workers: int = 1, threads: int | None = None) -> None:
        for name, number in (("workers", workers), ("threads", threads)):
            if number is not None and number < 1:
                raise UserError(f"--{name} was given as {number}; it must be at least 1")
        self.workers = workers
        self.threads = threads or _default_threads(workers)
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(["__main__", __name__, *_PRELOADED])
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="run")
        # Processes are started and reaped under one lock: multiprocessing reaps the children of other threads
        # whenever one is started, and two threads that reap the same child would lose its exit code.
        super().__init__()
        self._idle: list[_Worker] = []
        self._active: dict[str, _Worker] = {}

    @property
    def slots(self) -> int:
        """The number of processes."""
        return self.workers

    def submit(self, cell: Cell, workspace: Workspace, listener: Listener) -> Future[Outcome]:
        """Queue a cell; it is computed as soon as a process is free."""
        with self._lock:
            self._cancelled.discard(cell.run_id)
        return self._threads.submit(self._compute, cell, workspace, listener)

    def cancel(self, run_id: str) -> None:
        """Ask the process of one run to save and end."""
        with self._lock:
            self._cancelled.add(run_id)
            if run_id in self._active:
                self._active[run_id].ask_to_end()

    def stop(self, *, now: bool = False) -> None:
        """Ask the running processes to save and end (or kill them), and start no others."""
        with self._lock:
            self._stopping = True
            for worker in self._active.values():
                worker.process.kill() if now else worker.ask_to_end()

    def close(self) -> None:
        """Wait for all cells and end the processes."""
        self._threads.shutdown()
        with self._lock:
            for worker in self._idle:
                worker.end()
            self._idle.clear()

    def _compute(self, cell: Cell, workspace: Workspace, listener: Listener) -> Outcome:
        start = time.monotonic()
        with self._lock:
            if self._ending(cell):
                return Outcome(cell, "interrupted")
            worker = self._idle.pop() if self._idle else self._start()
            if not worker.process.is_alive():  # killed while it had nothing to do
                worker.end()
                worker = self._start()
            self._active[cell.run_id] = worker
        outcome: Outcome | None = None
        with suppress(EOFError, OSError):  # the process is gone
            worker.connection.send((cell, workspace))
            while isinstance(message := worker.connection.recv(), Moment):
                listener(cell, message)
            outcome = replace(message, cell=cell)
        with self._lock:
            del self._active[cell.run_id]
            usable = outcome is not None and outcome.state in ("done", "busy") and not self._ending(cell)
            if usable and time.monotonic() - worker.born < _YOUNG:
                self._idle.append(worker)
            else:
                worker.end()
        if outcome is None:
            code = worker.process.exitcode
            how = f"was killed by signal {-code}" if code and code < 0 else f"ended with exit code {code}"
            hint = " (out of memory?)" if code == -getattr(signal, "SIGKILL", 9) else ""
            outcome = Outcome(cell, "failed", error=f"its process {how}{hint}")
            if self._ending(cell):
                outcome = Outcome(cell, "interrupted")
        return replace(outcome, seconds=time.monotonic() - start)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        # A daemon: should this process end without having waited, it is told to save and end.
        process = self._context.Process(target=_serve, args=(theirs, self.threads), daemon=True)
        if os.name == "posix":  # processes inherit the mask of this thread: SIGINT is for this process alone
            resource_tracker.ensure_running()  # first: starting it would unblock the signal
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        process.start()
        theirs.close()
        return _Worker(process, ours, time.monotonic())


class ThisProcess(Executor):
    """Computes one cell after the other in this process, which needs no guard in scripts.

    A run has ended when another call comes, so there is nothing to cancel or to stop.
    """

    def __init__(self, display: Display) -> None:
        super().__init__()
        self._display = display

    def submit(self, cell: Cell, workspace: Workspace, listener: Listener) -> Future[Outcome]:
        """Compute the cell; its future has ended."""
        future: Future[Outcome] = Future()
        future.set_result(run_here(cell, workspace, self._display))
        return future


def _default_threads(workers: int) -> int:
    """Return OMP_NUM_THREADS if it is a positive number, else the cores divided among the workers."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return max(1, (os.cpu_count() or 1) // workers)


class _Worker(NamedTuple):
    process: Any
    connection: Connection
    born: float

    def ask_to_end(self) -> None:
        """Let the process save its run and end."""
        if os.name == "posix":  # elsewhere this would kill; there the console sends Ctrl-C to all processes
            self.process.terminate()

    def end(self) -> None:
        """Let the process end and wait for it."""
        self.connection.close()
        self.process.join()


# ---- in the worker process -----------------------------------------------------------------------------------------


def _serve(connection: Connection, threads: int) -> None:
    """Compute the cells that come over the connection, until it is closed."""
    if os.name == "posix":
        os.setsid()  # Ctrl-C in the terminal reaches only the parent, which then sends one signal
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    while True:
        try:
            cell, workspace = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(run_cell(cell, workspace, Reporter(connection.send)))


def run_here(cell: Cell, workspace: Workspace, display: Display) -> Outcome:
    """Compute a run in this process; what a user can correct, or another process computes, is an outcome."""
    from gplasc.runs.execute import execute

    start = time.monotonic()
    try:
        result = execute(cell.spec, replace(workspace, note_unfinished=False), display=display)
    except Busy:
        return Outcome(cell, "busy")
    except UserError as error:
        return Outcome(cell, "failed", error=str(error))
    return Outcome(cell, "done", result.record, seconds=time.monotonic() - start)


def run_cell(cell: Cell, workspace: Workspace, display: Display) -> Outcome:
    """Compute a run in this process, which may have computed others; what libraries print goes into its folder."""
    import torch

    from gplasc.errors import Interrupted

    log = _log_to(workspace.out / cell.run_id)
    # An own method that uses torch's generator depends on no other run.
    torch.set_rng_state(_first_random_state())
    try:
        with warnings.catch_warnings():  # also forgets which warnings were shown
            outcome = run_here(cell, workspace, display)
    except (Interrupted, KeyboardInterrupt):
        outcome = Outcome(cell, "interrupted")
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(
            cell,
            "failed",
            error=f"{error_in_user_file(error) or f'{type(error).__name__}: {error}'} (see {log})",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    if log is not None and outcome.state != "busy" and log.stat().st_size == 0:
        log.unlink()
    return outcome


@lru_cache
def _first_random_state() -> Any:
    """Return the state of torch's generator before the first run of this process."""
    import torch

    return torch.get_rng_state()


def _log_to(folder: Path) -> Path | None:
    """Send what libraries print to a file of the run, so that it does not disturb the display."""
    log = folder / _LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Neither through a link nor to a pipe.
        plain = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | plain, 0o644)
    except OSError:  # the run itself reports this in better words
        return None
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    return log


def _end_with_parent() -> None:
    """When the parent has ended, save and end: nothing waits for the result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)


class Reporter(Display):
    """Sends the progress of a run, now and then, to the process that waits for it."""

    def __init__(self, send: Callable[[Moment], None]) -> None:
        self._send = send
        self._last = 0.0

    def show(self, moment: Moment, cell: Shown | None = None) -> None:
        """Send the moment, unless the last one was sent just before."""
        now = time.monotonic()
        if now - self._last >= _REPORT_EVERY:
            self._last = now
            with suppress(OSError):  # the parent has ended
                self._send(moment)

    def say(self, text: str) -> None:
        """Write to the log of the run."""
        print(text, file=sys.stderr, flush=True)
