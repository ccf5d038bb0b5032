"""`gplasc.run`: one run from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from gplasc._io.display import display as open_display
from gplasc.errors import UserError
from gplasc.learning import Callback
from gplasc.models import EncoderBuilder
from gplasc.runs.encoder import choose_encoder
from gplasc.runs.execute import execute
from gplasc.runs.result import Result
from gplasc.runs.spec import RunRequest
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Scale
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
