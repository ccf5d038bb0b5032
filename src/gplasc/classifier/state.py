"""The state folder of a classifier: whole or as it was before, readable without training data.

state.json       format, settings, classes, tasks, and the names of the files below; the last one written
learned-*.pt     weights, predictor, memory, held-out images, optimizer, random generators; with a checksum
encoder-*.pt     weights of a frozen encoder of the user's own
encoder.py       copy of the user's file that builds the encoder
lock             held by whoever writes
pending/         the task that is being learned: which one, its features, and checkpoints
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import gplasc
from gplasc._io.files import remove_leftovers, write_atomic
from gplasc._io.lock import Held, locked
from gplasc._io.text import printable
from gplasc.classifier._schema import IndexSchema
from gplasc.classifier.intake import Label
from gplasc.classifier.model import ClassifierModel, TaskRecord
from gplasc.errors import UserError
from gplasc.learning import checkpoints
from gplasc.models import ForeignEncoder
from gplasc.settings.components import is_file
from gplasc.settings.types import Config

FORMAT = 1
INDEX = "state.json"
PENDING = "pending"
_LOCK = "lock"
_SOURCE = "encoder.py"

_MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older format, a function that turns an index of it into one of the next format."""


@dataclass(frozen=True)
class SavedState:
    """What a state folder holds, apart from tensors."""

    folder: Path
    index: dict[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the classifier's constructor; an encoder by its name."""
        return dict(self.index["parameters"])

    @property
    def config(self) -> Config:
        """The complete settings."""
        return Config(**self.index["config"])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, size, size) of the images."""
        channels, height, width = self.index["shape"]
        return channels, height, width

    @property
    def classes(self) -> list[Label]:
        """The labels, in the order in which they were learned."""
        return list(self.index["classes"])

    @property
    def records(self) -> list[TaskRecord]:
        """What each task brought."""
        return [
            TaskRecord(**{**task, "new_classes": tuple(task["new_classes"]), "notes": tuple(task["notes"])})
            for task in self.index["tasks"]
        ]

    @property
    def encoder(self) -> str:
        """The encoder's name, by which it can be built; a file is that of the state folder."""
        name: str = self.config.model.encoder
        place, _, function = name.rpartition(":")
        return f"{self.folder / _SOURCE}:{function}" if is_file(place) else name

    def read_tensors(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Read what was learned, and the weights of a frozen encoder if there are any.

        Raises:
            UserError: If a file is damaged.
            FileNotFoundError: If a file is not there: another process may just have written the next state.
        """
        files = self.index["files"]
        return self._read(files["learned"]), self._read(files["encoder"]) if files["encoder"] else None

    def _read(self, name: str) -> dict[str, Any]:
        if not (self.folder / name).exists():
            raise FileNotFoundError(name)
        tensors = checkpoints.read_state(self.folder / name)
        if tensors is None:
            raise UserError(f"{self.folder / name} is damaged; restore the state folder from a copy")
        return tensors


def read_state(folder: Path) -> SavedState:
    """Read the index of a state folder.

    Raises:
        UserError: If there is no state, or it is damaged or of a later version.
    """
    path = folder / INDEX
    try:
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        number = int(index["format"])
    except FileNotFoundError:
        raise UserError(
            f"there is no classifier in {folder}; create one with `gplasc learn {folder} FOLDER`"
        ) from None
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}); restore the state folder from a copy") from None
    if number > FORMAT:
        raise UserError(
            f"{folder} has the format {number}, this version reads up to {FORMAT}; install gplasc "
            f"{index.get('gplasc', 'of a later version')} or later"
        )
    while number in _MIGRATIONS:
        index = _MIGRATIONS[number](index)
        number += 1
    if number != FORMAT:
        raise UserError(f"{path} has the unknown format {number}; restore the state folder from a copy")
    try:
        IndexSchema.model_validate(index)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "its values"
        raise UserError(
            f"{path} is damaged ({printable(where)}: {problem['msg']}); restore the state folder from a copy"
        ) from None
    return SavedState(folder, index)


def write_state(folder: Path, parameters: Mapping[str, Any], model: ClassifierModel) -> None:
    """Write a state; call it while `held` holds the folder. Until the index is written the old state is valid.

    Raises:
        UserError: If it cannot be written.
    """
    old: dict[str, Any] = {}
    if (folder / INDEX).exists():
        old = read_state(folder).index
    token = secrets.token_hex(4)
    learned = checkpoints.write_state(folder / f"learned-{token}.pt", model.state_dict())
    files: dict[str, str | None] = {"learned": learned.name, "encoder": None}
    # The file that was used last: that of the user, or the copy in the folder that the classifier was loaded from.
    place, _, _ = str(parameters["encoder"]).rpartition(":")
    if isinstance(model.frozen_encoder, ForeignEncoder):
        kept = old.get("files", {}).get("encoder")
        same = old.get("config", {}).get("identity") == model.config.identity
        if kept and same and (folder / kept).exists():
            files["encoder"] = kept
        else:
            weights = model.frozen_encoder.state_dict()
            files["encoder"] = checkpoints.write_state(folder / f"encoder-{token}.pt", weights).name
    if is_file(place) and Path(place).resolve() != (folder / _SOURCE).resolve():
        write_atomic(folder / _SOURCE, Path(place).read_text(encoding="utf-8"))
    memory = model.learner.ctx.memory
    index = {
        "format": FORMAT,
        "gplasc": gplasc.__version__,
        "parameters": {**parameters, "encoder": model.config.model.encoder},
        "config": model.config.model_dump(mode="json"),
        "shape": list(model.shape),
        "classes": model.classes,
        "tasks": [asdict(record) for record in model.records],
        "memory": {"rows": len(memory), "capacity": memory.capacity, "held_out": model.num_held_out},
        "files": files,
    }
    plain = json.dumps(index, indent=1, default=lambda value: value.tolist())  # of numpy
    write_atomic(folder / INDEX, plain + "\n")
    for path in [*folder.glob("learned-*.pt"), *folder.glob("encoder-*.pt")]:
        if path.name not in files.values():
            path.unlink(missing_ok=True)
    delete_pending(folder)


def delete_pending(folder: Path) -> None:
    """Delete what a task left that was being learned; call it while `held` holds the folder.

    The folder is renamed first: a process that is killed here must not leave checkpoints without the file that names
    their task.
    """
    pending = folder / PENDING
    if pending.exists():
        unused = pending.replace(folder / f".{PENDING}.{secrets.token_hex(4)}.tmp")
        shutil.rmtree(unused, ignore_errors=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a state folder for writing; what killed processes left is removed.

    If the block raises an error before anything was written, the lock file is removed too, and the folder if it is new.

    Raises:
        UserError: If another process holds it, or it cannot be written.
    """
    new = not folder.exists()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give the folder of a classifier's state, or a new name")
    if folder.is_dir() and not (folder / INDEX).exists():
        others = [entry.name for entry in folder.iterdir() if entry.name not in (_LOCK, PENDING, _SOURCE)]
        if any(not name.startswith((".", "learned-", "encoder-")) for name in others):
            raise UserError(f"{folder} is not empty and holds no classifier; give a new folder")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / _LOCK, wait=False))
        except Held:
            raise UserError(
                f"another process is learning in {folder}; wait for it, or stop it before you continue"
            ) from None
        except OSError as error:
            raise UserError(f"{folder} cannot be written ({error.strerror}); choose another place") from None
        remove_leftovers(folder)
        try:
            yield
        except Exception:
            _remove_unused(folder, new=new)
            raise


def _remove_unused(folder: Path, *, new: bool) -> None:
    """Remove the lock file of a folder that holds nothing else, and the folder itself if it is new."""
    with suppress(OSError):  # Windows does not delete a file that is held
        if [entry.name for entry in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            if new:
                folder.rmdir()
