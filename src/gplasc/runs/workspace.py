"""Where runs are computed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gplasc.errors import UserError

SETTINGS = "settings.json"
TERMS = "terms.jsonl"
WEIGHTS = "weights.safetensors"
STATE = "state.pt"


class Busy(UserError):
    """Another process is working on the run."""


def _ignore(path: Path) -> None:  # not a lambda: a workspace is sent to other processes
    """Do nothing."""


@dataclass(frozen=True)
class Workspace:
    """Where runs are computed and stored, see `gplasc.run`; nothing here changes their numbers."""

    out: Path
    data_dir: str | Path | None = None
    device: str | None = None
    save_every: float = 60.0
    """Seconds between checkpoints."""
    save_steps: int | None = None
    on_saved: Callable[[Path], None] = _ignore
    """Called with the path of each new checkpoint."""
    keep_memory: bool = True
    compiled: bool = False
    tensorboard: bool = False
    note_unfinished: bool = True
    """Whether a new run names the unfinished ones of the same settings; it reads those of all runs in ``out``."""
