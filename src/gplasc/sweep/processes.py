"""Jobs as processes of this machine: one process a run, so many at once, each with its share of the threads.

A process for every run, not a pool of long-lived ones: a run that crashes or is killed takes no other with it, and
its memory is given back. A fork server that has imported torch once makes them cheap to start.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gplasc.errors import UserError
from gplasc.progress import Moment
from gplasc.results.record import read_record
from gplasc.sweep.job import Job, Listener, Outcome

LOG = "log.txt"
# Imported once by the fork server; torch's optimizers import torch._dynamo, which takes seconds, when first used.
_PRELOADED = ("torch._dynamo", "gplasc.running", "gplasc.methods.co2l", "gplasc.plugins.gplasc")
_REPORT_EVERY = 0.5  # seconds between two reports of a run


class Processes:
    """An executor with so many processes at once, each with so many threads (default: the cores, divided)."""

    def __init__(self, workers: int = 1, threads: int | None = None) -> None:
        if workers < 1 or (threads is not None and threads < 1):
            raise ValueError(f"workers is {workers} and threads is {threads}; both must be at least 1")
        self.workers = workers
        self.threads = threads or max(1, (os.cpu_count() or 1) // workers)
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(["__main__", __name__, *_PRELOADED])
        self._waiters = ThreadPoolExecutor(workers, thread_name_prefix="run")
        # Processes are started and reaped under one lock: multiprocessing reaps the children of other threads
        # whenever one is started, and two threads that reap the same child would lose its exit code.
        self._lock = threading.Lock()
        self._live: list[Any] = []
        self._stopping = False

    def submit(self, job: Job, listener: Listener) -> Future[Outcome]:
        """Compute the job as soon as a process is free."""
        return self._waiters.submit(self._compute, job, listener)

    def stop(self, *, now: bool = False) -> None:
        """Ask the running processes to save and end (or kill them), and begin no others."""
        with self._lock:
            self._stopping = True
            for process in self._live:
                if now:
                    process.kill()
                elif (
                    os.name == "posix"
                ):  # elsewhere this would be a kill; there the console tells them itself
                    process.terminate()

    def close(self) -> None:
        """Wait for the threads that waited for processes."""
        self._waiters.shutdown()

    def _compute(self, job: Job, listener: Listener) -> Outcome:
        start = time.monotonic()
        receiver, sender = self._context.Pipe(duplex=False)
        with self._lock:
            if self._stopping:
                return Outcome(job, "interrupted")
            # A daemon: should this process end without having waited, it is told to save and end.
            process = self._context.Process(target=_child, args=(sender, job, self.threads), daemon=True)
            process.start()
            self._live.append(process)
        sender.close()
        last: tuple[str, str | None] | None = None
        while True:
            try:
                message = receiver.recv()
            except (EOFError, OSError):
                break
            if isinstance(message, Moment):
                listener(job, message)
            else:
                last = message
        receiver.close()
        with self._lock:
            process.join()
            self._live.remove(process)
        return self._outcome(job, last, process.exitcode, time.monotonic() - start)

    def _outcome(
        self, job: Job, last: tuple[str, str | None] | None, code: int | None, seconds: float
    ) -> Outcome:
        if last is None:
            if self._stopping:
                return Outcome(job, "interrupted", seconds=seconds)
            how = f"was killed by signal {-code}" if code and code < 0 else f"ended with exit code {code}"
            hint = " (out of memory?)" if code == -getattr(signal, "SIGKILL", 9) else ""
            return Outcome(job, "failed", error=f"its process {how}{hint}", seconds=seconds)
        state, error = last
        if state == "interrupted":
            return Outcome(job, "interrupted", seconds=seconds)
        if state == "done":
            record = read_record(job.folder)
            if record is not None:
                return Outcome(job, "done", record, seconds=seconds)
            error = f"its record has vanished from {job.folder}"
        return Outcome(job, "failed", error=error, seconds=seconds)


# ---- in the child ------------------------------------------------------------------------------------------------


def _child(sender: Connection, job: Job, threads: int) -> None:
    if os.name == "posix":
        os.setsid()  # Ctrl-C in the terminal is for the parent, which then tells us once
    log = _log_to(job.folder)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    from gplasc.errors import Interrupted
    from gplasc.running import execute

    torch.set_num_threads(threads)
    last: tuple[str, str | None]
    try:
        execute(
            job.resolved,
            out=job.out,
            data_dir=job.data_dir,
            device=job.device,
            display=_Reporter(sender),
            save_every=job.save_every,
        )
        last = ("done", None)
    except (Interrupted, KeyboardInterrupt):
        last = ("interrupted", None)
    except UserError as error:
        last = ("failed", str(error))
    except Exception as error:
        traceback.print_exc()
        last = ("failed", f"{type(error).__name__}: {error} (see {log})")
    sys.stdout.flush()
    sys.stderr.flush()
    if log is not None and log.stat().st_size == 0:
        log.unlink()
    sender.send(last)
    sender.close()


def _log_to(folder: Path) -> Path | None:
    """Send what libraries print to a file beside the run, so that it does not tear the overview."""
    log = folder / LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:  # the run itself will say so in better words
        return None
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    return log


def _end_with_parent() -> None:
    """When the parent is gone, save and end: nobody waits for the result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)


class _Reporter:
    """Sends where the run stands to the parent."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender
        self._last = 0.0

    def show(self, moment: Moment) -> None:
        """Send, unless the last report is fresh."""
        now = time.monotonic()
        if now - self._last >= _REPORT_EVERY:
            self._last = now
            try:
                self._sender.send(moment)
            except OSError:  # the parent is gone
                return

    def say(self, text: str) -> None:
        """Write to the log of the run."""
        print(text, file=sys.stderr, flush=True)

    def phase(self, name: str) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Do nothing: the outcome is sent last."""
