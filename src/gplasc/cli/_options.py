"""Option groups that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from gplasc.errors import UserError
from gplasc.study.executors import Engine

if TYPE_CHECKING:
    from gplasc.runs.spec import RunRequest
    from gplasc.runs.workspace import Workspace

Scale = Literal["paper", "cpu", "smoke"]
Names = Annotated[tuple[str, ...], Parameter(allow_repeating=True, consume_multiple=False)]
Assignments = Annotated[Names, Parameter(metavar="NAME=VALUE")]
Axes = Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE,...")]
DEFAULTS = {"stream": "seq-digits", "method": "co2l", "plugins": (), "seed": 0, "scale": "cpu"}


@Parameter(name="*", group=Group("Run", sort_key=0))
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options that decide the result of a run."""

    stream: str | None = None
    """Name of a stream (see `gplasc list`), folder:PATH or npz:PATH; default: seq-digits."""
    method: str | None = None
    """Name of a method (see `gplasc list`), or the path of a Python file with your own; default: co2l."""
    plugin: Names = ()
    """Plug-in to add, for example gplasc; may be repeated."""
    like: str | None = None
    """Built-in method whose presets a method of your own takes; default: those that its class names."""
    encoder: str | None = None
    """Name of an encoder, FILE.py:function or package.module:function; default: that of the preset."""
    frozen: bool = False
    """Do not train the encoder: features are computed once. The same as --set encoder_lr=0."""
    buffer: int | None = None
    """Number of samples in the memory; default: that of the preset."""
    seed: int | None = None
    """Seed of every random choice; default: 0."""
    scale: Scale | None = None
    """paper: the published protocol; cpu (default): the same code on a budget for two cores; smoke: seconds."""
    config: Path | None = None
    """TOML file with settings, as `gplasc show --toml` prints them."""
    set: Assignments = ()
    """A single setting, for example train.lr=0.1 or margin=0.2; may be repeated."""

    def named(self) -> dict[str, Any]:
        """Return the options that name something and were given."""
        names = ("stream", "method", "like", "seed", "scale", "buffer")
        values = {name: getattr(self, name) for name in names} | {"plugins": self.plugin or None}
        return {name: value for name, value in values.items() if value is not None}

    def in_file(self) -> dict[str, Any]:
        """Return the settings of the file, by dotted name."""
        from gplasc.settings.parse import read_toml

        return read_toml(self.config) if self.config else {}

    def request(self) -> RunRequest:
        """Return what was asked for: the command line precedes the file, and the file the defaults."""
        from gplasc.runs.spec import RunRequest
        from gplasc.settings.parse import parse_assignments

        settings = self.in_file()
        base = {**DEFAULTS, "like": None, "buffer": None}
        named = {name: settings.pop(name, value) for name, value in base.items()} | self.named()
        given = parse_assignments(self.set)
        if self.encoder is not None and given.setdefault("model.encoder", self.encoder) != self.encoder:
            raise UserError("--encoder and --set model.encoder name two encoders; give one of them")
        if self.frozen:
            rates = [given.pop(name) for name in ("encoder_lr", "model.encoder_lr") if name in given]
            if any(rate != 0 for rate in rates):
                raise UserError(f"--frozen and --set encoder_lr={rates[0]} disagree; give one of them")
            given["model.encoder_lr"] = 0.0
        return RunRequest(**named, settings=settings | given)


@Parameter(name="*", group="Place")
@dataclass(frozen=True, kw_only=True)
class Place:
    """Where data sets are read and where is computed."""

    data_dir: Path | None = None
    """Folder of data sets; default: GPLASC_DATA, then the user's cache folder."""
    device: str | None = None
    """cpu, cuda, mps; default: the accelerator if there is one."""
    quiet: bool = False
    """No progress."""

    def workspace(self, out: Path) -> Workspace:
        """Return where runs in this folder are computed."""
        from gplasc.runs.workspace import Workspace

        return Workspace(out, self.data_dir, self.device)


@Parameter(name="*", group="Computing")
@dataclass(frozen=True, kw_only=True)
class Computing(Engine):
    """What computes many runs."""

    dry_run: bool = False
    """Only print how many runs there are, how many are complete, and how long the rest takes."""


@dataclass(frozen=True)
class Launch:
    """What `run` returns in place of an exit code: start the command in this many processes."""

    processes: int
