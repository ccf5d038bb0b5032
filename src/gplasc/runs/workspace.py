"""The folder of a run: what is in it, and who may write to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gplasc._io.files import remove_leftovers
from gplasc._io.lock import Held, locked
from gplasc.errors import UserError

SETTINGS = "settings.json"
TERMS = "terms.jsonl"
WEIGHTS = "weights.safetensors"
STATE = "state.pt"


class Busy(UserError):
    """Another process is working on the run."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run's folder; a second process is refused, a killed one leaves nothing behind."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / "lock", wait=False))
        except Held:
            raise Busy(
                f"another process is working on the run in {folder}; wait for it, or stop it before you continue"
            ) from None
        except OSError as error:
            raise UserError(
                f"the folder {folder} cannot be written ({error.strerror}); choose another with --out"
            ) from None
        remove_leftovers(folder)
        yield
