"""One run: settings -> stream -> learner -> record, in a folder, resumable."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

import gplasc
from gplasc._io.display import Display
from gplasc._io.files import remove_leftovers, write_atomic
from gplasc.errors import UserError
from gplasc.learning import Callback, Learner, checkpoints
from gplasc.learning.callbacks import (
    Checkpoint,
    FiniteCheck,
    ProgressDisplay,
    StopSignals,
    TensorBoard,
    TermLog,
)
from gplasc.learning.devices import check_device
from gplasc.learning.digest import digest
from gplasc.learning.distributed import Processes
from gplasc.learning.learner import evaluation_samples
from gplasc.learning.schedule import steps_per_task
from gplasc.methods import find_method
from gplasc.models import Encoder
from gplasc.results.record import FORMAT, Record, read_record, write_record
from gplasc.runs.build import build_learner
from gplasc.runs.inputs import open_learned_stream
from gplasc.runs.spec import RunSpec
from gplasc.runs.workspace import STATE, TERMS, WEIGHTS, Workspace, begin, discard, held, tidy
from gplasc.settings.types import Config
from gplasc.streams import Stream


@dataclass(frozen=True)
class Result:
    """A complete run: its record (see `gplasc.results.record`) and its folder."""

    record: Record
    folder: Path

    @property
    def run_id(self) -> str:
        """The hash of the settings, of the user's own source files and of the data."""
        return self.record.run_id

    def metric(self, name: str = "final_accuracy", scenario: str = "class_il") -> float:
        """Return one metric, class-incremental by default.

        Raises:
            UserError: If there is no such metric or scenario.
        """
        return self.record.metric(name, scenario)


def execute(
    spec: RunSpec,
    workspace: Workspace,
    *,
    stream: Stream | None = None,
    encoder: Encoder | None = None,
    callbacks: Sequence[Callback] = (),
    restart: bool = False,
    display: Display,
    processes: Processes | None = None,
) -> Result:
    """Compute a run, or what is left of it, in ``out/RUN_ID``; see `gplasc.run`.

    Of several processes the first one calls this function, and the others call `follow`.
    """
    device = check_device(workspace.device)
    processes = processes or Processes()
    spec = spec.identified(workspace.data_dir, stream=stream)
    config = spec.config
    folder = workspace.out / config.run_id
    try:
        if not restart and (record := read_record(folder)) is not None:
            display.say(f"{config.title} on {config.stream}: complete already, see {folder}")
            tidy(folder)
            processes.from_first(None)
            return Result(record, folder)
        with held(folder):
            remove_leftovers(folder)
            if restart:
                discard(folder)
            if (record := read_record(folder)) is not None:  # another process has just finished it
                processes.from_first(None)
                return Result(record, folder)
            for note in begin(folder, config, note_unfinished=workspace.note_unfinished):
                display.say(note)
            stream, encoder = open_learned_stream(
                spec,
                workspace.data_dir,
                stream=stream,
                encoder=encoder,
                device=device,
                display=display,
            )
            for note in stream.notes:
                display.say(note)
            log = TermLog(folder / TERMS)
            checkpoint = Checkpoint(
                folder,
                every=workspace.save_every,
                every_steps=workspace.save_steps,
                identity=_code(config),
                on_saved=workspace.on_saved,
            )
            signals = StopSignals(checkpoint.save)
            learner = build_learner(
                config,
                stream,
                encoder=encoder,
                device=device,
                processes=processes,
                compiled=workspace.compiled,
                callbacks=[
                    FiniteCheck(),
                    log,
                    ProgressDisplay(display, tasks=len(stream), total_steps=_total_steps(config, stream)),
                    *([TensorBoard(folder)] if workspace.tensorboard else []),
                    *callbacks,
                    checkpoint,
                    signals,
                ],
            )
            _resume(learner, folder, display)
            if missing := log.resume(learner.position.total_steps):
                display.say(f"{folder / TERMS} lacks {missing} of the steps before the checkpoint")
            with signals.installed():
                if processes.size > 1:
                    processes.from_first((config, learner.state_dict()))
                learner.learn(stream)
            record = _describe(spec, learner, stream)
            _save(folder, learner, keep_memory=workspace.keep_memory)
            write_record(folder, record)
            checkpoints.delete_all(folder)
            return Result(record, folder)
    finally:
        display.close()


def _total_steps(config: Config, stream: Stream) -> int:
    method = find_method(config.method)
    if not method.trains:
        return 0
    sizes = [len(task.train) for task in stream]
    return sum(steps_per_task(config, method.pool, sizes))


def _code(config: Config) -> dict[str, str]:
    return {"gplasc": gplasc.__version__, **config.identity}


def _resume(learner: Learner, folder: Path, display: Display) -> None:
    """Load the newest intact checkpoint, if there is one."""
    state, damaged = checkpoints.load_newest(folder)
    if state is None:
        if damaged:
            raise UserError(
                f"every checkpoint of the run in {folder} is damaged; start over with --restart, "
                "or restore the files from a copy"
            )
        return
    for path in damaged:
        display.say(f"the checkpoint {path.name} is damaged; using the one before it")
    try:
        now, then = _code(learner.config), dict(state["identity"])
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        if not changed:
            learner.load_state_dict(state["learner"])
    except checkpoints.MISFIT as error:
        raise UserError(
            f"the checkpoint of the run in {folder} does not fit its settings ({checkpoints.misfit(error)}); "
            "start over with --restart"
        ) from error
    if changed:
        raise UserError(
            f"the run in {folder} was begun with another version of {', '.join(changed)}; "
            "start over with --restart, or restore what it was begun with"
        )
    display.say(
        f"continuing {learner.config.title} at task {learner.position.task + 1}, "
        f"epoch {learner.position.epoch + 1}, step {learner.position.total_steps}"
    )


def _describe(spec: RunSpec, learner: Learner, stream: Stream) -> Record:
    """Describe a finished run completely."""
    config, ctx = spec.config, learner.ctx
    device = str(ctx.device)
    data = {
        "format": FORMAT,
        "run_id": config.run_id,
        "title": config.title,
        "settings": config.model_dump(mode="json"),
        "sources": spec.sources,
        "stream": {
            "name": stream.name,
            "class_names": list(stream.class_names),
            "classes_per_task": list(stream.classes_per_task),
            "train_samples": [len(task.train) for task in stream],
            "test_samples": [len(evaluation_samples(task, config)) for task in stream],
            "image_shape": list(stream.image_shape),
            "mean": list(stream.mean),
            "std": list(stream.std),
            "notes": list(stream.notes),
        },
        "matrix": {"class_il": _square(learner.class_il), "task_il": _square(learner.task_il)},
        "geometry": learner.geometry,
        "timings": learner.timings,
        "seconds": sum(sum(task.values()) for task in learner.timings),
        "steps": learner.position.total_steps,
        "memory": {"rows": len(ctx.memory), "bytes": ctx.memory.num_bytes},
        "processes": ctx.processes.size,
        "parameters": sum(p.numel() for p in ctx.modules.parameters()),
        "deviations": {
            name: list(component.DEVIATIONS)
            for name, component in zip(config.options, learner.components, strict=True)
        },
        "weights_sha256": digest(ctx.modules.state_dict()),
        "predictor_sha256": digest(ctx.predictor.state_dict()) if ctx.predictor else "",
        "memory_sha256": digest(ctx.memory.rows()),
        "environment": _environment(
            device,
            torch.cuda.get_device_name() if device.startswith("cuda") else "",
            torch.get_num_threads(),
            {"torch": torch.__version__, "numpy": numpy.__version__},
        ),
    }
    return Record.parse(json.loads(json.dumps(data)))


def _square(rows: list[list[float]]) -> list[list[float | None]]:
    """Fill up the rows of an accuracy matrix with None for the tasks still to come.

    >>> _square([[90.0], [60.0, 80.0]])
    [[90.0, None], [60.0, 80.0]]
    """
    return [[*row, *[None] * (len(rows) - len(row))] for row in rows]


def _environment(device: str, device_name: str, threads: int, versions: dict[str, str]) -> dict[str, Any]:
    """Return with what and where a run was computed."""
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gplasc": gplasc.__version__,
        "commit": _commit(),
        "python": sys.version.split()[0],
        **versions,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": device_name or device,
        "threads": threads,
    }


@lru_cache
def _commit() -> str | None:
    """Return the commit of the source tree, if there is one."""
    try:
        result = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()


def _save(folder: Path, learner: Learner, *, keep_memory: bool) -> None:
    """Write the weights with the predictor, and what learning further tasks would need beyond them."""
    from safetensors.torch import save

    ctx = learner.ctx
    tensors = dict(ctx.modules.state_dict())
    assert ctx.predictor is not None
    tensors |= {f"predictor.{name}": value for name, value in ctx.predictor.state_dict().items()}
    weights = {name: value.clone() for name, value in tensors.items() if isinstance(value, Tensor)}
    write_atomic(folder / WEIGHTS, save({name: value.contiguous() for name, value in weights.items()}))
    if keep_memory:
        kept = ("position", "classes_per_task", "num_classes", "memory", "random", "components")
        state = learner.state_dict()
        checkpoints.write_state(folder / STATE, {name: state[name] for name in kept})


def follow(spec: RunSpec, workspace: Workspace, processes: Processes) -> None:
    """Compute the share of a process that is not the first one; it writes no files, see `execute`."""
    device = check_device(workspace.device)
    given: tuple[Config, dict[str, Any]] | None = processes.from_first(None)
    if given is None:  # the run is complete already
        return
    config, state = given
    again = RunSpec(config=config, sources=spec.sources)
    stream, encoder = open_learned_stream(again, workspace.data_dir, stream=None, device=device)
    learner = build_learner(
        config, stream, encoder=encoder, device=device, processes=processes, compiled=workspace.compiled
    )
    learner.load_state_dict(state)
    with StopSignals(lambda _: None).installed():  # process 0 decides when to stop
        learner.learn(stream)
