"""One run: settings -> stream -> learner -> record, in a folder, resumable."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

import gplasc
from gplasc._io.display import Display
from gplasc._io.display import display as open_display
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
from gplasc.learning.digest import digest
from gplasc.learning.distributed import Processes
from gplasc.learning.learner import evaluation_samples
from gplasc.learning.schedule import steps_per_task
from gplasc.methods import find_method
from gplasc.models import Encoder, EncoderBuilder
from gplasc.results.record import FORMAT, RECORD, Record, read_record, write_record
from gplasc.runs.build import build_learner, configured_encoder
from gplasc.runs.encoder import choose_encoder
from gplasc.runs.features import FeatureExtractor, extract_features, feature_stream
from gplasc.runs.spec import Resolved, identify, resolve, with_identity
from gplasc.runs.workspace import SETTINGS, STATE, TERMS, WEIGHTS, held
from gplasc.settings.types import Config, Scale
from gplasc.streams import Stream, find_stream, open_stream
from gplasc.streams.catalog import stream_name


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


def run(
    stream: str | Path | Stream,
    method: str,
    plugins: tuple[str, ...] | list[str] | str = (),
    *,
    buffer: int | None = None,
    seed: int = 0,
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
    if choice is not None:
        settings |= choice.settings(settings)
    resolved = resolve(name, method, plugins, buffer=buffer, seed=seed, scale=scale, settings=settings)
    if choice is not None and choice.encoder is not None:
        resolved = with_identity(resolved, "encoder", choice.identity)
    return execute(
        resolved,
        out=Path(out),
        stream=stream if isinstance(stream, Stream) else None,
        data_dir=data_dir,
        device=device,
        encoder=None if choice is None else choice.encoder,
        callbacks=callbacks,
        keep_memory=keep_memory,
        restart=restart,
        display=open_display(quiet),
    )


def execute(
    resolved: Resolved,
    *,
    out: Path,
    stream: Stream | None = None,
    data_dir: str | Path | None = None,
    device: str | None = None,
    encoder: Encoder | None = None,
    callbacks: Sequence[Callback] = (),
    keep_memory: bool = True,
    restart: bool = False,
    display: Display,
    save_every: float = 60.0,
    save_steps: int | None = None,
    on_saved: Callable[[Path], None] = lambda path: None,
    tensorboard: bool = False,
    compiled: bool = False,
    processes: Processes | None = None,
) -> Result:
    """Compute a run, or what is left of it, in ``out/RUN_ID``; see `run`.

    Of several processes the first one calls this function, and the others call `follow`.
    """
    device = check_device(device)
    processes = processes or Processes()
    resolved = identify(resolved, data_dir=data_dir, stream=stream)
    config = resolved.config
    folder = out / config.run_id
    try:
        if not restart and (record := read_record(folder)) is not None:
            display.say(f"{config.title} on {config.stream}: complete already, see {folder}")
            _tidy(folder)
            processes.from_first(None)
            return Result(record, folder)
        with held(folder):
            remove_leftovers(folder)
            if restart:
                _discard(folder)
            if (record := read_record(folder)) is not None:  # another process has just finished it
                processes.from_first(None)
                return Result(record, folder)
            for note in _begin(folder, config):
                display.say(note)
            stream, encoder = open_learned_stream(
                resolved, data_dir, stream=stream, encoder=encoder, device=device, display=display
            )
            for note in stream.notes:
                display.say(note)
            log = TermLog(folder / TERMS)
            checkpoint = Checkpoint(
                folder,
                every=save_every,
                every_steps=save_steps,
                identity=_code(config),
                on_saved=on_saved,
            )
            signals = StopSignals(checkpoint.save)
            learner = build_learner(
                config,
                stream,
                encoder=encoder,
                device=device,
                processes=processes,
                compiled=compiled,
                callbacks=[
                    FiniteCheck(),
                    log,
                    ProgressDisplay(display, tasks=len(stream), total_steps=_total_steps(config, stream)),
                    *([TensorBoard(folder)] if tensorboard else []),
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
            record = _describe(resolved, learner, stream)
            _save(folder, learner, keep_memory=keep_memory)
            write_record(folder, record)
            checkpoints.delete_all(folder)
            return Result(record, folder)
    finally:
        display.close()


def open_learned_stream(
    resolved: Resolved,
    data_dir: str | Path | None,
    *,
    stream: Stream | None = None,
    encoder: Encoder | None = None,
    device: str = "cpu",
    display: Display | None = None,
) -> tuple[Stream, Encoder | None]:
    """Open the stream that a run learns, and the encoder if it is not a built-in one.

    The stream of a frozen encoder is one of features; it comes without encoder.

    Args:
        resolved: The settings.
        data_dir: Where data sets are.
        stream: The stream itself where it has no name that can be opened.
        encoder: The encoder if it was passed as an object.
        device: Where features are computed.
        display: Where to show the progress.
    """
    config = resolved.config
    if encoder is None and ":" in config.model.encoder:
        encoder = configured_encoder(config, 3)
    size = None if encoder is None else encoder.image_size
    stream = stream or open_configured_stream(resolved, data_dir, image_size=size)
    if config.model.encoder_lr > 0 or stream.features:
        return stream, encoder
    encoder = encoder or configured_encoder(config, stream.image_shape[0])
    extractor = _new_extractor(encoder, config, stream, device)
    shown = display or open_display(quiet=True)
    return feature_stream(
        stream, extractor, on_progress=lambda phase, done: shown.phase(f"{phase} {done:.0%}")
    ), None


def write_features(
    resolved: Resolved, out: Path, *, data_dir: str | Path | None, device: str, display: Display
) -> str:
    """Compute the features of a stream with a frozen encoder and write them into a folder.

    Args:
        resolved: The settings; stream and encoder are those they name.
        out: The folder; what is there already is not computed again.
        data_dir: Where data sets are.
        device: Where to compute.
        display: Where to show the progress.

    Returns:
        One line about what was written.

    Raises:
        UserError: If the folder holds other features.
    """
    config = resolved.config
    encoder = configured_encoder(config, 3) if ":" in config.model.encoder else None
    size = None if encoder is None else encoder.image_size
    stream = open_configured_stream(resolved, data_dir, image_size=size)
    encoder = encoder or configured_encoder(config, stream.image_shape[0])
    extractor = _new_extractor(encoder, config, stream, device)
    extract_features(stream, extractor, out, lambda phase, done: display.phase(f"{phase} {done:.0%}"))
    return (
        f"features of {stream.name} in {out}: {len(stream)} tasks, {stream.num_classes} classes, "
        f"{encoder.feature_dim} features; learn them with --stream features:{out}"
    )


def _new_extractor(encoder: Encoder, config: Config, stream: Stream, device: str) -> FeatureExtractor:
    return FeatureExtractor(
        encoder,
        config,
        shape=stream.image_shape,
        mean=stream.mean,
        std=stream.std,
        views=config.model.feature_views,
        device=device,
    )


def open_configured_stream(
    resolved: Resolved, data_dir: str | Path | None, *, image_size: int | None = None
) -> Stream:
    """Open the stream as the settings want it; `image_size` is used where they leave the size open."""
    data = resolved.config.data
    if not find_stream(resolved.config.stream)[0].size_is_setting:
        image_size = None
    return open_stream(
        resolved.config.stream,
        data_dir=data_dir,
        classes_per_task=data.classes_per_task,
        class_order_seed=data.class_order_seed,
        images_per_class=data.images_per_class,
        test_images_per_class=data.test_images_per_class,
        image_size=data.image_size or image_size,
        validation=data.validation,
        skip_corrupt=data.skip_corrupt,
    )


def check_device(device: str | None) -> str:
    """Return the device to compute on; default: the accelerator if there is one.

    Raises:
        UserError: If this machine does not have the device.
    """
    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        there = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        there += ["mps"] if torch.backends.mps.is_available() else []
        raise UserError(
            f"the device '{device}' cannot be used ({reason}); this machine has: {', '.join(['cpu', *there])}"
        ) from None
    return device


def _total_steps(config: Config, stream: Stream) -> int:
    method = find_method(config.method)
    if not method.trains:
        return 0
    sizes = [len(task.train) for task in stream]
    return sum(steps_per_task(config, method.pool, sizes))


def _begin(folder: Path, config: Config) -> list[str]:
    """Write the settings of a run into its folder; return a note on unfinished runs of the same settings.

    Such a run was begun with other source files or other data. It is not continued.
    """
    settings = config.model_dump(mode="json")
    identity = settings.pop("identity")
    notes = []
    if not (folder / SETTINGS).exists():
        for path in folder.parent.glob(f"*/{SETTINGS}"):
            other = _read_settings(path)
            before = other.pop("identity", {})
            if other == settings and not (path.parent / RECORD).exists():
                changed = [name for name in {*identity, *before} if identity.get(name) != before.get(name)]
                notes.append(
                    f"the unfinished run in {path.parent} was begun with another version of "
                    f"{', '.join(sorted(changed))}; it is not continued, this is a new run in {folder}"
                )
        write_atomic(folder / SETTINGS, config.model_dump_json(indent=1) + "\n")
    return notes


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _code(config: Config) -> dict[str, str]:
    return {"gplasc": gplasc.__version__, **config.identity}


def _tidy(folder: Path) -> None:
    """Delete what a process left behind that was killed after it had written the record."""
    if any(folder.glob("checkpoint-*.pt")) or any(folder.glob(".*.tmp*")):
        with suppress(UserError), held(folder):  # a folder that is held or read-only stays as it is
            remove_leftovers(folder)
            checkpoints.delete_all(folder)


def _discard(folder: Path) -> None:
    """Delete what a run has saved, the record first: a run without one is not complete."""
    for name in (RECORD, WEIGHTS, STATE, TERMS, SETTINGS):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise UserError(
                f"{folder / name} cannot be deleted ({error.strerror}); delete the folder {folder} yourself"
            ) from None
    checkpoints.delete_all(folder)


def _check_objects(out: Any, data_dir: Any, callbacks: Any) -> None:
    for name, value in (("out", out), ("data_dir", data_dir or "")):
        if not isinstance(value, str | Path):
            raise UserError(f"{name} is {value!r}; give the path of a folder")
    if not isinstance(callbacks, Sequence) or not all(isinstance(one, Callback) for one in callbacks):
        raise UserError(f"callbacks is {callbacks!r}; give a list of gplasc.Callback objects")


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


def _describe(resolved: Resolved, learner: Learner, stream: Stream) -> Record:
    """Describe a finished run completely."""
    config, ctx = resolved.config, learner.ctx
    device = str(ctx.device)
    data = {
        "format": FORMAT,
        "run_id": config.run_id,
        "title": config.title,
        "settings": config.model_dump(mode="json"),
        "sources": resolved.sources,
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


def follow(
    resolved: Resolved,
    processes: Processes,
    *,
    data_dir: str | Path | None = None,
    device: str | None = None,
    compiled: bool = False,
) -> None:
    """Compute the share of a process that is not the first one; it writes no files, see `execute`."""
    device = check_device(device)
    given: tuple[Config, dict[str, Any]] | None = processes.from_first(None)
    if given is None:  # the run is complete already
        return
    config, state = given
    again = Resolved(config=config, sources=resolved.sources)
    stream, encoder = open_learned_stream(again, data_dir, stream=None, device=device)
    learner = build_learner(
        config, stream, encoder=encoder, device=device, processes=processes, compiled=compiled
    )
    learner.load_state_dict(state)
    with StopSignals(lambda _: None).installed():  # process 0 decides when to stop
        learner.learn(stream)
