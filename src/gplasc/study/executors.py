"""Where many runs are computed, as a user chooses it: processes of this machine, or a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gplasc.errors import UserError
from gplasc.settings.types import Scale
from gplasc.study.cell import Executor
from gplasc.study.processes import Processes, default_workers


@dataclass(frozen=True)
class Engine:
    """What computes runs, and with how much of what.

    name: "processes" of this machine, or "ray".
    workers: Processes: runs at the same time; default: see `default_workers`.
    threads: Threads of torch in each run.
    address: Ray: address of the cluster.
    cpus: Ray: cores of each run; default: 1.
    gpus: Ray: GPUs of each run; default: 0.
    storage: Ray: fsspec address where checkpoints are kept if the nodes do not share the folder of the runs.
    """

    name: Literal["processes", "ray"] = "processes"
    workers: int | None = None
    threads: int | None = None
    address: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    storage: str | None = None

    def check(self, *, single: bool = False) -> None:
        """Check that the options fit each other.

        Args:
            single: Whether runs must be computed one at a time on this machine.

        Raises:
            UserError: If they do not.
        """
        others = {
            "--address": self.address,
            "--cpus": self.cpus,
            "--gpus": self.gpus,
            "--storage": self.storage,
        }
        if self.name == "processes":
            for option, value in others.items():
                if value is not None:
                    raise UserError(
                        f"{option} was given without a cluster; add --engine ray, or leave it out"
                    )
        elif single:
            raise UserError("this experiment measures time, one run after the other; leave out --engine ray")
        elif self.workers is not None:
            raise UserError(
                "--workers was given with --engine ray, where --cpus and --gpus decide how many runs fit; leave it out"
            )

    def open(self, scale: Scale, *, single: bool = False) -> Executor:
        """Return the executor.

        Args:
            scale: Scale of the runs, which decides how many processes there are by default.
            single: Whether runs must be computed one at a time on this machine.

        Raises:
            UserError: If an option is not allowed, or the cluster cannot be used.
        """
        self.check(single=single)
        if self.name == "processes":
            return self.processes(scale, single=single)
        from gplasc.study.ray import RayExecutor

        return RayExecutor(
            self.address,
            cpus=1.0 if self.cpus is None else self.cpus,
            gpus=0.0 if self.gpus is None else self.gpus,
            threads=self.threads,
            storage=self.storage,
        )

    def processes(self, scale: Scale, *, single: bool = False) -> Processes:
        """Return processes of this machine, whatever the name; see `open`."""
        found = Processes(default_workers(scale) if self.workers is None else self.workers, self.threads)
        return Processes(1, self.threads) if single else found
