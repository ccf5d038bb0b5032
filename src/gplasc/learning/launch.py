"""Starts the processes of one run on this machine, and ends them all when one is lost."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gplasc.errors import UserError
from gplasc.learning.distributed import LOST

_PATIENCE = 20.0  # seconds in which the other processes may end by themselves


def launch(words: Sequence[str], count: int) -> int:
    """Run ``gplasc`` on ``count`` processes of this machine, and return the exit code; a lost one is a UserError."""
    # The processes find each other in this store, which chooses a free port by itself.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    errors = [tempfile.TemporaryFile() for _ in range(1, count)]  # noqa: SIM115
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "gplasc", *words],
            env=_environment(rank, count, store.port),
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=None if rank == 0 else errors[rank - 1],
        )
        for rank in range(count)
    ]

    def pass_on(number: int, frame: object) -> None:
        processes[0].send_signal(number)  # process 0 saves and ends, and the others follow

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return _watch(processes, errors)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for process in processes:
            process.kill()
            process.wait()
        for file in errors:
            file.close()


def _watch(processes: Sequence[subprocess.Popen[bytes]], errors: Sequence[IO[bytes]]) -> int:
    """Wait for process 0; give it a little time to end by itself when another fails."""
    while all(process.poll() in (None, 0) for process in processes) and processes[0].poll() is None:
        time.sleep(0.1)
    lost = [rank for rank, process in enumerate(processes) if process.poll() not in (None, 0)]
    try:
        code = processes[0].wait(_PATIENCE if lost else None)
    except subprocess.TimeoutExpired:
        code = 1
    reasons = {rank: _reason(processes[rank], errors[rank - 1]) for rank in lost if rank > 0}
    causes = [rank for rank, reason in reasons.items() if LOST not in reason]  # not what follows from others
    if code == 0 or (code > 0 and not causes):
        return code
    rank = min(causes, default=0)
    reason = reasons[rank] if causes else signal.Signals(-code).name
    raise UserError(
        f"process {rank} ended with {reason}; the run has stopped, and its last checkpoint is kept: run the same "
        "command again, with any number of --devices, to continue"
    )


def _reason(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    code = process.returncode
    if code < 0:
        return signal.Signals(-code).name
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f"code {code} ({lines[-1] if lines else 'no message'})"


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    """Return the environment that torchrun would give a process; the cores are divided among the processes."""
    threads = str(max(1, (os.cpu_count() or 1) // count))
    return {
        "OMP_NUM_THREADS": threads,
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is there; process 0 does not open another
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
