"""`gplasc.compare`: a comparison from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc._io.display import display as open_display
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Scale
from gplasc.streams.catalog import stream_name
from gplasc.study.cell import Cell, Executor, Listener, Outcome
from gplasc.study.compare import compare_rows, methods_alone
from gplasc.study.plan import ComparePlan
from gplasc.study.processes import Processes, run_here
from gplasc.study.study import Study


def compare(
    stream: str | Path,
    methods: Sequence[str] | str,
    plugins: Sequence[str] | str = (),
    seeds: Sequence[int] = (0, 1, 2),
    *,
    tune: int | None = None,
    buffers: Sequence[int] = (),
    like: str | None = None,
    scale: Scale = "cpu",
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str | None = None,
    workers: int = 1,
    quiet: bool = False,
    **settings: Any,
) -> Study:
    """Compare methods with and without plug-ins on a stream; the same as ``gplasc compare``.

    Complete runs are not computed again. Tables are written into a folder of ``out``.

    >>> from gplasc.results.group import CLASS_IL
    >>> study = gplasc.compare("seq-digits", ["co2l", "er"], ["gplasc"], seeds=(0, 1))  # doctest: +SKIP
    >>> for group in study.groups(stage="test"):  # doctest: +SKIP
    ...     print(group.labels["row"], group.spread(CLASS_IL))

    Args:
        stream: Name of a stream.
        methods: Names of methods, or paths of Python files with your own.
        plugins: Names of plug-ins, or paths of Python files; each is added to each method.
        seeds: Seeds of the runs on test.
        tune: Trials that every row is tuned with, on a validation split; default: the presets are used.
        buffers: Sizes of the memory; default: that of the preset.
        like: Built-in method whose presets methods of your own take; default: those that their classes name.
        scale: ``"paper"``, ``"cpu"`` or ``"smoke"``.
        out: Folder of all runs.
        data_dir: Where data sets are; default: ``GPLASC_DATA``, then the user's cache folder.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``; default: the accelerator if there is one.
        workers: Runs that are computed at the same time. More than one need processes of their own: a script then
            calls this function below ``if __name__ == "__main__":``.
        quiet: No progress.
        **settings: Settings of all rows by the names of ``gplasc show``; they are not searched.

    Returns:
        The runs. Those on test have the label ``stage="test"``, the trials ``stage="tuning"``.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If a signal asked to stop.
    """
    plan = ComparePlan(
        streams=(stream_name(stream),),
        methods=(methods,) if isinstance(methods, str) else tuple(methods),
        plugins=(plugins,) if isinstance(plugins, str) else tuple(plugins),
        seeds=tuple(seeds),
        trials=1 if tune is None else tune,
        buffers=tuple(buffers),
        like=like,
        scale=scale,
        set=tuple(f"{name}={'none' if v is None else json.dumps(v)}" for name, v in settings.items()),
    )
    workspace, display = Workspace(Path(out), data_dir, device), open_display(quiet)

    def open_executor() -> Executor:
        return _ThisProcess(display) if workers == 1 else Processes(workers)

    return compare_rows(plan, methods_alone(plan), workspace, open_executor, display=display)[0]


class _ThisProcess(Executor):
    """Computes one cell after the other in this process, which needs no guard in scripts.

    A run has ended when another call comes, so there is nothing to cancel or to stop.
    """

    def __init__(self, display: Display) -> None:
        super().__init__()
        self._display = display

    def submit(self, cell: Cell, workspace: Workspace, listener: Listener) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(run_here(cell, workspace, self._display))
        return future
