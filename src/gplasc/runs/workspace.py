"""Where runs are computed and stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gplasc._io.files import remove_leftovers, write_atomic
from gplasc._io.lock import Held, locked
from gplasc._io.reading import read_text
from gplasc.errors import UserError
from gplasc.learning import checkpoints
from gplasc.results.record import RECORD
from gplasc.settings.types import Config

SETTINGS = "settings.json"
TERMS = "terms.jsonl"
WEIGHTS = "weights.safetensors"
STATE = "state.pt"


class Busy(UserError):
    """Another process is working on the run."""


@dataclass(frozen=True)
class Workspace:
    """Where runs are computed and stored, see `gplasc.run`; nothing here changes their numbers."""

    out: Path
    data_dir: str | Path | None = None
    device: str | None = None
    save_every: float = 60.0
    """Seconds between checkpoints."""
    save_steps: int | None = None
    on_saved: Callable[[Path], None] | None = None
    """Called with the path of each new checkpoint."""
    keep_memory: bool = True
    compiled: bool = False
    tensorboard: bool = False
    note_unfinished: bool = True
    """Whether a new run names the unfinished ones of the same settings; it reads those of all runs in ``out``."""


class RunFolder:
    """The folder of one run: settings, terms, checkpoints, weights, record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder; a second process is refused, a killed one leaves nothing behind."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path / "lock", wait=False))
            except Held:
                raise Busy(
                    f"another process is working on the run in {self.path}; "
                    "wait for it, or stop it before you continue"
                ) from None
            except OSError as error:
                raise UserError(
                    f"the folder {self.path} cannot be written ({error.strerror}); choose another: --out, or out="
                ) from None
            remove_leftovers(self.path)
            yield

    def begin(self, config: Config, *, note_unfinished: bool) -> list[str]:
        """Write the settings of a new run; return notes on unfinished runs with other source files or other data."""
        notes: list[str] = []
        if (self.path / SETTINGS).exists():
            return notes
        settings = config.model_dump(mode="json")
        identity = settings.pop("identity")
        for path in self.path.parent.glob(f"*/{SETTINGS}") if note_unfinished else ():
            other = _read_settings(path)
            before = other.pop("identity", {})
            if other == settings and not (path.parent / RECORD).exists():
                changed = [name for name in {*identity, *before} if identity.get(name) != before.get(name)]
                notes.append(
                    f"the unfinished run in {path.parent} was begun with another version of "
                    f"{', '.join(sorted(changed))}; it is not continued, this is a new run in {self.path}"
                )
        write_atomic(self.path / SETTINGS, config.model_dump_json(indent=1) + "\n")
        return notes

    def tidy(self) -> None:
        """Delete what a process left behind that was killed after it had written the record."""
        if any(self.path.glob("checkpoint-*.pt")) or any(self.path.glob(".*.tmp*")):
            with suppress(UserError), self.held():  # a folder that is held or read-only stays as it is
                checkpoints.delete_all(self.path)

    def discard(self) -> None:
        """Delete what the run has saved, the record first: a run without one is not complete."""
        for name in (RECORD, WEIGHTS, STATE, TERMS, SETTINGS):
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise UserError(
                    f"{self.path / name} cannot be deleted ({error.strerror}); delete the folder {self.path} yourself"
                ) from None
        checkpoints.delete_all(self.path)


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(read_text(path))
    except (UserError, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
