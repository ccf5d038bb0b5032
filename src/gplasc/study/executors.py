"""Where many runs are computed, as a user chooses it: processes of this machine, or a Ray cluster."""

# Annotations are objects here, not text: the command line inherits the fields.

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.settings.types import Scale
    from gplasc.study.cell import Executor
    from gplasc.study.processes import Processes


_MEMORY = {"smoke": 700_000_000, "cpu": 1_500_000_000, "paper": 4_000_000_000}  # bytes of a run, roughly


def _free_memory() -> int:
    """Return the bytes that new processes can have; without /proc, as if there were enough."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))
    except (OSError, StopIteration):
        return sys.maxsize


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What computes many runs."""

    workers: int | None = None
    """Runs computed at the same time, in processes; default: one a core, as far as the free memory goes; 1 on a GPU."""
    threads: int | None = None
    """Threads of each run; default: OMP_NUM_THREADS, else 1; with --workers, a share of the cores. Ray: --cpus."""
    engine: Literal["processes", "ray"] = "processes"
    """What computes the runs: processes of this machine, or a Ray cluster (needs the extra `ray`)."""
    address: str | None = None
    """Ray: address of the cluster; default: RAY_ADDRESS, else the cluster of this machine."""
    cpus: float | None = None
    """Ray: cores of each run; default: 1."""
    gpus: float | None = None
    """Ray: GPUs of each run, for example 1, or 0.5 for two runs on a GPU; default: 0."""
    storage: str | None = None
    """Ray: fsspec address for checkpoints if the nodes share no folder, for example s3://bucket/folder."""

    def processes(self, scale: "Scale", *, single: bool = False) -> "Processes":
        """Return processes of this machine, also in place of a cluster, for a dry run; ``single``: one at a time."""
        from gplasc.learning.devices import check_device
        from gplasc.study.processes import Processes

        if self.engine == "processes":
            of_ray = ("address", "cpus", "gpus", "storage")
            if given := [option for option in of_ray if getattr(self, option) is not None]:
                raise UserError(
                    f"--{given[0]} was given without a cluster; add --engine ray, or leave it out"
                )
        elif single:
            raise UserError("this experiment measures time, one run after the other; leave out --engine ray")
        elif self.workers is not None:
            raise UserError(
                "--workers was given with --engine ray, where --cpus and --gpus decide how many runs fit; leave it out"
            )
        if self.workers is None and not single and check_device(None) == "cpu":
            workers = max(1, min(os.cpu_count() or 1, _free_memory() // _MEMORY[scale]))
            default = None if os.environ.get("OMP_NUM_THREADS") else 1
            return Processes(workers, default if self.threads is None else self.threads)
        processes = Processes(1 if self.workers is None else self.workers, self.threads)
        return Processes(1, self.threads) if single else processes

    def open(self, scale: "Scale", *, single: bool = False) -> "Executor":
        """Return the executor; see `processes`."""
        processes = self.processes(scale, single=single)
        if self.engine == "processes":
            return processes
        from gplasc.study.ray import RayExecutor

        return RayExecutor(self)
