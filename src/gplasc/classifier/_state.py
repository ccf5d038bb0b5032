"""The state folder of a classifier: whole or as it was before, readable without training data.

state.json         the index: settings, classes, months, and the names of the files below; the last one written
data/              immutable files, named by their SHA-256: features of each month, thumbnails, head, encoder, code
previous/N.json    indexes of older states, complete: their files are in data/, too
candidate.json     index of an update that was refused
lock               held by the process that writes
pending/           what a call of `learn` has computed so far
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, ValidationError, model_validator
from safetensors.torch import load, save

import gplasc
from gplasc._io.files import remove_leftovers, write_atomic
from gplasc._io.lock import Held, locked
from gplasc._io.reading import read_bytes
from gplasc._io.text import printable
from gplasc.classifier._calibration import Calibration, Plain
from gplasc.classifier._code import moved
from gplasc.classifier._gate import Label, TaskRecord
from gplasc.classifier._heads import HeadScore
from gplasc.classifier._model import Model
from gplasc.classifier._rows import PREDICTIONS, Rows
from gplasc.errors import UserError
from gplasc.learning.checkpoints import LARGEST, load_tensors
from gplasc.results.record import RECORD
from gplasc.settings.types import Config

FORMAT = 2
INDEX, CANDIDATE, PENDING = "state.json", "candidate.json", "pending"
_DATA, _PREVIOUS, _LOCK = "data", "previous", "lock"
_NAME = r"^[a-z]+-[0-9a-f]{32}\.(safetensors|pt|json)$"
_LARGEST = 2**26  # bytes of an index
_SAME = ("names", "tasks", "heads", "head", "calibration")  # in a model and in the index
_RESTORE = "restore the state folder from a copy"

_Role = Literal["learned", "results", "encoder", "code"]
_File = Annotated[str, Field(pattern=_NAME)]


class State(Plain):
    """The index of a state."""

    format: Literal[2] = 2
    gplasc: str = gplasc.__version__
    generation: int = Field(ge=1)
    kind: Literal["frozen", "trained"]
    parameters: dict[str, Any]
    """The arguments of the classifier's constructor; an encoder by its name."""
    config: Config
    encoder: str
    """The encoder by its name; "features" if the user computes them."""
    shape: tuple[Annotated[int, Field(gt=0)], ...]
    names: list[Label | None] = Field(min_length=1)
    tasks: list[TaskRecord] = Field(min_length=1)
    heads: list[HeadScore]
    head: str
    calibration: Calibration | None
    kept: dict[str, int]
    files: dict[_Role, _File]
    rows: list[_File] = Field(min_length=1)

    @model_validator(mode="after")
    def _agree(self) -> State:
        labels = {name for name in self.names if name is not None}
        if not labels or len({type(name) for name in labels}) > 1:
            raise ValueError("the classes must be different texts, or different numbers")
        if not {label for task in self.tasks for label in task.new_classes} <= labels:
            raise ValueError("the classes must be those that the months brought")
        if not {"learned", "results"} <= set(self.files):
            raise ValueError("files must name what was learned, and its results")
        if not {"method", "plugins", "encoder"} <= set(self.parameters):
            raise ValueError("parameters must name method, plugins and encoder")
        if len(self.shape) not in (1, 3) or (len(self.shape) == 3 and self.shape[0] not in (1, 3)):
            raise ValueError("shape must be a number of features, or 1 or 3 channels and a square")
        return self

    @property
    def labels(self) -> list[Label]:
        """The labels, in the order in which they were learned."""
        return list(dict.fromkeys(name for name in self.names if name is not None))

    @property
    def all_files(self) -> set[str]:
        """The names of all files in data/."""
        return {*self.files.values(), *self.rows}


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_state(folder: Path, name: str = INDEX) -> State:
    """Read an index of a state folder."""
    path = folder / name
    if not path.exists():
        raise UserError(_why_missing(folder))
    try:
        index: dict[str, Any] = json.loads(read_bytes(path, _LARGEST))
        number, digest = int(index["format"]), index.pop("sha256", "")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}); {_RESTORE}") from None
    if number < FORMAT:
        raise UserError(
            f"{folder} was written by gplasc 0.2, whose states this version cannot read; learn its images again in a "
            "new folder, month by month: `gplasc learn NEW FOLDER`"
        )
    if number > FORMAT:
        formats = f"{folder} has the format {number}, this version reads {FORMAT}"
        raise UserError(f"{formats}; install gplasc {index.get('gplasc', 'of a later version')} or later")
    try:
        if digest != _digest(index):
            raise ValueError("its checksum differs")
        return State.model_validate_json(json.dumps(index))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "its values"
        reason = f"{printable(where)}: {problem['msg']}"
    except ValueError as error:
        reason = str(error)
    raise UserError(f"{path} is damaged ({reason}); {_RESTORE}")


def _why_missing(folder: Path) -> str:
    """Say what a folder without a state holds, and what to do."""
    for left, why in ((PENDING, "was cut off"), (CANDIDATE, "was refused")):
        if (folder / left).exists():
            return f"the first `gplasc learn` in {folder} {why}; give it again to continue"
    if (folder / RECORD).exists() or any(folder.glob(f"*/{RECORD}")):
        return (
            f"{folder} holds a run, not a classifier; gplasc.Result.read(FOLDER).load() returns its network in "
            "Python, and `gplasc learn STATE IMAGES` creates a classifier"
        )
    return f"there is no classifier in {folder}; create one with `gplasc learn {folder} FOLDER`"


def _digest(index: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()


def fill_model(folder: Path, state: State, model: Model) -> None:
    """Fill a new model with what a state holds; a file that is not there raises FileNotFoundError."""
    for name in _SAME:
        setattr(model, name, getattr(state, name))
    model.rows = read_rows(folder, state)
    model.load_tensors(read_tensors(folder, state.files["learned"]))


def read_rows(folder: Path, state: State) -> Rows:
    """Return what is kept of the images."""
    parts = []
    for name in state.rows:
        columns = load(_read(folder, name))
        none = torch.full_like(columns["y"], -1)
        parts.append(Rows(**{"before": none, "after": none, "confidence": none.float(), **columns}))
    rows, results = Rows.join(parts), load(_read(folder, state.files["results"]))
    if "y" not in results:
        rows = replace(rows, **results)
    elif len(rows.x):  # an earlier layout: predictions for the rows that are kept
        for name in PREDICTIONS:
            getattr(rows, name)[rows.kept] = results[name]
    rows.check(len(state.names))
    return rows


def read_code(folder: Path, state: State) -> dict[str, str]:
    """Return the users' files that a state carries."""
    return dict(json.loads(_read(folder, state.files["code"]))) if "code" in state.files else {}


def _read(folder: Path, name: str) -> bytes:
    path = folder / _DATA / name
    if not path.exists():
        raise FileNotFoundError(name)
    content = read_bytes(path, LARGEST)
    if hashlib.sha256(content).hexdigest()[:32] != name.partition("-")[2].partition(".")[0]:
        raise UserError(f"{path} is damaged; {_RESTORE}")
    return content


def read_tensors(folder: Path, name: str) -> dict[str, Any]:
    """Read tensors; see `load_tensors`."""
    content = _read(folder, name)
    try:
        return load_tensors(content)
    except Exception as error:  # the checksum is right, but the content was not written by `write_state`
        reason = str(error).partition("\n")[0][:120]
        raise UserError(f"{folder / _DATA / name} is damaged ({reason}); {_RESTORE}") from None


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_state(folder: Path, model: Model, *, keep: int = 3, candidate: bool = False) -> None:
    """Write a state, or a refused candidate next to it, while `held` holds the folder; the index is written last."""
    options, name = model.options, model.options.encoder_name
    config = options.config
    names = {"method": moved(config.method, ""), "plugins": moved(config.plugins, "")}

    def put(role: str, content: bytes, suffix: str = "safetensors") -> str:
        """Write a file whose name is its digest, unless it is there; return the name."""
        name = f"{role}-{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"
        if not (folder / _DATA / name).exists():
            write_atomic(folder / _DATA / name, content)
        return name

    predictions = {name: getattr(model.rows, name) for name in PREDICTIONS}
    files: dict[_Role, str] = {
        "learned": put("learned", _packed(model.tensors()), "pt"),
        "results": put("results", save(predictions)),
    }
    frozen = model.kind == "frozen" or config.model.encoder_lr == 0
    if options.encoder and frozen and not name.startswith("gplasc."):  # gplasc cannot build it again
        files["encoder"] = put("encoder", _packed(options.encoder.state_dict()), "pt")
    if options.code:
        files["code"] = put("code", json.dumps(dict(options.code)).encode(), "json")
    old = read_state(folder) if (folder / INDEX).exists() else None
    state = State(
        generation=old.generation + 1 if old else 1,
        parameters=dict(options.given),
        config=config.model_copy(update=names),
        encoder=name,
        shape=options.shape,
        kind=model.kind,
        kept=model.kept,
        files=files,
        rows=[put("rows", save(columns)) for columns in model.rows.months()],
        **{name: getattr(model, name) for name in _SAME},
    )
    if candidate:
        _write_index(folder / CANDIDATE, state)
        return
    if old and keep:
        _write_index(folder / _PREVIOUS / f"{old.generation:06d}.json", old)
    _write_index(folder / INDEX, state)
    delete_history(folder, keep)
    delete_pending(folder)


def _write_index(path: Path, state: State) -> None:
    index = state.model_dump(mode="json")
    write_atomic(path, json.dumps({**index, "sha256": _digest(index)}, indent=1) + "\n")


def _packed(tensors: Mapping[str, Any]) -> bytes:
    content = io.BytesIO()
    torch.save(dict(tensors), content)
    return content.getvalue()


def older_states(folder: Path) -> list[Path]:
    """Return the indexes of older states, the newest last; one that is not older was left by a killed process."""
    paths = sorted((folder / _PREVIOUS).glob("[0-9]*.json"))
    newest = read_state(folder).generation if (folder / INDEX).exists() else 0
    return [path for path in paths if path.stem.isdecimal() and int(path.stem) < newest]


def roll_back(folder: Path) -> State:
    """Replace the state by the one before it, while `held` holds the folder."""
    paths = older_states(folder)
    if not paths:
        raise UserError(f"{folder} keeps no older state; `gplasc learn --keep 3` keeps three")
    state = read_state(paths[-1].parent, paths[-1].name)
    _write_index(folder / INDEX, state)
    delete_history(folder, len(paths))
    return state


def delete_history(folder: Path, keep: int = 0) -> None:
    """Delete the refused update, and all but some older states; those that are not older, too."""
    kept = older_states(folder)[-keep:] if keep else []
    for path in {folder / CANDIDATE, *(folder / _PREVIOUS).glob("[0-9]*.json")} - {*kept}:
        path.unlink(missing_ok=True)
    clean(folder)


def clean(folder: Path) -> None:
    """Delete the files in data/ that no index names; call it while `held` holds the folder."""
    paths = [folder / INDEX, folder / CANDIDATE, *(folder / _PREVIOUS).glob("[0-9]*.json")]
    with suppress(UserError, OSError):  # of a damaged index the files are not known; others do no harm
        states = [read_state(path.parent, path.name) for path in paths if path.exists()]
        used = {name for state in states for name in state.all_files}
        for path in (folder / _DATA).glob("*"):
            if re.fullmatch(_NAME[1:-1], path.name) and path.name not in used:
                path.unlink()


def delete_pending(folder: Path) -> None:
    """Delete what a task left that was being learned; call it while `held` holds the folder."""
    shutil.rmtree(folder / PENDING, ignore_errors=True)


def _check_folder(folder: Path) -> None:
    """Refuse what is not a state folder, and links in it, through which other folders would be changed."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give the folder of a classifier's state, or a new name")
    if folder.is_dir() and not (folder / INDEX).exists():
        ours = (_LOCK, PENDING, _DATA, _PREVIOUS, CANDIDATE)
        if any(entry.name not in ours and not entry.name.startswith(".") for entry in folder.iterdir()):
            raise UserError(f"{folder} is not empty and holds no classifier; give a new folder")
    for path in (folder / PENDING, folder / _DATA, folder / _PREVIOUS):
        if path.is_symlink():
            raise UserError(f"{path} is a link; put the folder itself there, or delete the link")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a state folder for writing; what killed processes left, and a new folder if it stays empty, is removed."""
    new = not folder.exists()
    _check_folder(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / _LOCK, wait=False))
        except Held:
            raise UserError(f"another process is learning in {folder}; wait for it, or stop it") from None
        except OSError as error:
            raise UserError(f"{folder} cannot be written ({error.strerror}); choose another place") from None
        remove_leftovers(folder)
        remove_leftovers(folder / _DATA)
        try:
            yield
        except Exception:
            with suppress(OSError):  # Windows does not delete a file that is held
                if [entry.name for entry in folder.iterdir()] == [_LOCK]:
                    (folder / _LOCK).unlink()
                    if new:
                        folder.rmdir()
            raise
