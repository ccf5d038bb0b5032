"""One run: settings -> stream -> learner -> record, in a folder, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import gplasc
from gplasc._io.display import Display
from gplasc._io.display import display as open_display
from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.learning import Callback, Learner, checkpoints
from gplasc.learning.callbacks.checkpoint import Checkpoint
from gplasc.learning.callbacks.progress import ProgressDisplay
from gplasc.learning.callbacks.signals import StopSignals
from gplasc.learning.callbacks.terms import FiniteCheck, TensorBoard, TermLog
from gplasc.learning.devices import check_device
from gplasc.learning.distributed import Processes, joined
from gplasc.learning.schedule import steps_per_task
from gplasc.methods import find_method
from gplasc.models import Encoder, EncoderBuilder
from gplasc.results.record import Record, read_record, write_record
from gplasc.runs._describe import describe
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.encoder import choose_encoder
from gplasc.runs.result import Result
from gplasc.runs.spec import RunRequest, RunSpec, settle
from gplasc.runs.workspace import STATE, TERMS, WEIGHTS, RunFolder, Workspace
from gplasc.settings.types import Config, Scale
from gplasc.streams import Stream
from gplasc.streams.catalog import stream_name


def run(
    stream: str | Path | Stream,
    method: str,
    plugins: tuple[str, ...] | list[str] | str = (),
    *,
    buffer: int | None = None,
    seed: int = 0,
    like: str | None = None,
    scale: Scale = "cpu",
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str | None = None,
    encoder: str | nn.Module | EncoderBuilder | None = None,
    callbacks: Sequence[Callback] = (),
    keep_memory: bool = True,
    restart: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Result:
    """Learn a stream with a method; the same as ``gplasc run``.

    A run that is complete is not computed again; one that was cut off continues.

    Args:
        stream: Name of a stream, or a stream of your own.
        method: Name of a method, or the path of a Python file with your own.
        plugins: Names of plug-ins, or paths of Python files.
        buffer: Samples that the memory holds; default: that of the preset.
        seed: Seed of every random choice.
        like: Built-in method whose presets a method of your own takes; default: those that its class names.
        scale: ``"paper"``, ``"cpu"`` or ``"smoke"``.
        out: Folder of all runs.
        data_dir: Where data sets are; default: ``GPLASC_DATA``, then the user's cache folder.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``; default: the accelerator if there is one.
        encoder: A name, ``FILE.py:function``, a `torch.nn.Module`, or a function that builds one; default: the one that
            the settings name. A module is copied. With ``encoder_lr=0``, or if no parameter of it requires gradients,
            it is frozen.
        callbacks: Called while the run is computed, see `gplasc.Callback`.
        keep_memory: Whether the finished run keeps its memory, which is needed to learn further tasks.
        restart: Discard what the run has saved so far, its record included, and start over.
        quiet: No progress.
        **settings: Settings by the names of ``gplasc show``, for example ``margin=0.2, **{"train.lr": 0.1}``.

    Returns:
        The record and the folder of the run.

    Raises:
        UserError: If something that was given is not allowed.
        Interrupted: If the run was asked to stop; it is saved.
    """
    _check_objects(out, data_dir, callbacks)
    name = stream.name if isinstance(stream, Stream) else stream_name(stream)
    choice = None if encoder is None else choose_encoder(encoder)
    spec = RunRequest(name, method, plugins, buffer, seed, scale, settings, choice, like).resolve()
    return execute(
        spec,
        Workspace(Path(out), data_dir, device, keep_memory=keep_memory),
        stream=stream if isinstance(stream, Stream) else None,
        encoder=None if choice is None else choice.encoder,
        callbacks=callbacks,
        restart=restart,
        display=open_display(quiet),
    )


def _check_objects(out: Any, data_dir: Any, callbacks: Any) -> None:
    for name, value in (("out", out), ("data_dir", data_dir or "")):
        if not isinstance(value, str | Path):
            raise UserError(f"{name} is {value!r}; give the path of a folder")
    if not isinstance(callbacks, Sequence) or not all(isinstance(one, Callback) for one in callbacks):
        raise UserError(f"callbacks is {callbacks!r}; give a list of gplasc.Callback objects")


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
    """Compute a run, or what is left of it, in ``out/RUN_ID``; see `gplasc.run`."""
    processes = processes or Processes()
    spec = spec.identified(workspace.data_dir, stream=stream)
    (spec,) = settle([spec], workspace.out, workspace.device)
    folder = RunFolder(workspace.out / spec.run_id)
    try:
        record = None if restart else read_record(folder.path)
        if record is not None:
            display.say(f"{spec.title} on {spec.config.stream}: complete already, see {folder.path}")
            folder.tidy()
        else:
            with folder.held():
                if restart:
                    folder.discard()
                record = read_record(folder.path)  # another process may just have finished it
                if record is None:
                    inputs = (stream, encoder)
                    record = _compute(spec, workspace, folder, inputs, callbacks, display, processes)
                    return Result(record, folder.path, spec)
        processes.from_first(None)
        return Result(record, folder.path, spec)
    finally:
        display.close()


def execute_joined(
    spec: RunSpec, workspace: Workspace, *, restart: bool = False, display: Display
) -> Result | None:
    """Compute a run with the processes that were launched with this one; all but the first one return None."""
    with joined(check_device(workspace.device)) as (processes, device):
        workspace = replace(workspace, device=device)
        if processes.first:
            return execute(spec, workspace, restart=restart, display=display, processes=processes)
        given: tuple[Config, dict[str, Any]] | None = processes.from_first(None)
        if given is None:  # the run is complete already
            return None
        stream, encoder = open_inputs(spec, workspace.data_dir, device=device)
        learner = build_learner(
            given[0], stream, encoder=encoder, device=device, processes=processes, compiled=workspace.compiled
        )
        learner.load_state_dict(given[1])
        with StopSignals(lambda _: None).installed():  # process 0 decides when to stop
            learner.learn(stream)
        return None


def _compute(
    spec: RunSpec,
    workspace: Workspace,
    folder: RunFolder,
    inputs: tuple[Stream | None, Encoder | None],
    callbacks: Sequence[Callback],
    display: Display,
    processes: Processes,
) -> Record:
    """Learn what is left of the run and write its files."""
    config, where, device = spec.config, folder.path, check_device(workspace.device)
    for note in (*spec.notes, *folder.begin(config, note_unfinished=workspace.note_unfinished)):
        display.say(note)
    stream, encoder = open_inputs(
        spec, workspace.data_dir, stream=inputs[0], encoder=inputs[1], device=device, display=display
    )
    for note in stream.notes:
        display.say(note)
    log = TermLog(where / TERMS)
    saving: dict[str, Any] = {"every": workspace.save_every, "every_steps": workspace.save_steps}
    saving |= {"on_saved": workspace.on_saved} if workspace.on_saved else {}
    checkpoint = Checkpoint(where, identity=_code(config), **saving)
    signals = StopSignals(checkpoint.save)
    method, sizes = find_method(config.method), [len(task.train) for task in stream]
    total_steps = sum(steps_per_task(config, method.pool, sizes)) if method.trains else 0
    progress = ProgressDisplay(display, tasks=len(stream), total_steps=total_steps)
    tensorboard = [TensorBoard(where)] if workspace.tensorboard else []
    learner = build_learner(
        config,
        stream,
        encoder=encoder,
        device=device,
        processes=processes,
        compiled=workspace.compiled,
        callbacks=[FiniteCheck(), log, progress, *tensorboard, *callbacks, checkpoint, signals],
    )
    spec.check_sources()
    _resume(learner, where, display)
    if missing := log.resume(learner.position.total_steps):
        display.say(f"{where / TERMS} lacks {missing} of the steps before the checkpoint")
    with signals.installed():
        if processes.size > 1:
            processes.from_first((config, learner.state_dict()))
        learner.learn(stream)
    record = describe(spec, learner, stream)
    _save(where, learner, keep_memory=workspace.keep_memory)
    write_record(where, record)
    checkpoints.delete_all(where)
    return record


def _code(config: Config) -> dict[str, str]:
    return {"gplasc": gplasc.__version__, **config.identity}


def _resume(learner: Learner, folder: Path, display: Display) -> None:
    """Load the newest intact checkpoint, if there is one."""
    state, damaged = checkpoints.load_newest(folder)
    if state is None:
        if damaged:
            raise UserError(
                f"every checkpoint of the run in {folder} is damaged; start over with --restart (restart=True in "
                "Python), or restore the files from a copy"
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
            "start over with --restart (restart=True in Python)"
        ) from error
    if changed:
        raise UserError(
            f"the run in {folder} was begun with another version of {', '.join(changed)}; "
            "start over with --restart (restart=True in Python), or restore what it was begun with"
        )
    display.say(
        f"continuing {learner.config.title} at task {learner.position.task + 1}, "
        f"epoch {learner.position.epoch + 1}, step {learner.position.total_steps}"
    )


def _save(folder: Path, learner: Learner, *, keep_memory: bool) -> None:
    """Write the weights with the predictor, and what learning further tasks would need beyond them."""
    from safetensors.torch import save

    ctx = learner.ctx
    assert ctx.predictor is not None
    predictor = {f"predictor.{name}": value for name, value in ctx.predictor.state_dict().items()}
    state = ctx.modules.state_dict() | predictor
    weights = {name: x.clone().contiguous() for name, x in state.items() if isinstance(x, Tensor)}
    write_atomic(folder / WEIGHTS, save(weights))
    if keep_memory:
        kept = ("position", "classes_per_task", "num_classes", "memory", "random", "components")
        whole = learner.state_dict()
        checkpoints.write_state(folder / STATE, {name: whole[name] for name in kept})
