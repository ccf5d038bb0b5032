"""Schema of record.json: plain data with a format version, parsed and checked once, where it enters.

Metrics are not stored; they are computed from the accuracy matrices, so a new one works on old records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, model_validator

from gplasc._io.files import write_atomic
from gplasc._io.reading import MissingError, read_text
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS, summarize
from gplasc.settings.parse import flatten
from gplasc.settings.presets import row_name

RECORD = "record.json"
_RUN_ID = re.compile("[0-9a-f]{12}")
FORMAT = 2

_Matrix = list[list[float | None]]


class _Part(BaseModel):
    """Part of a record: nothing is converted, and fields that a later version adds are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class _Settings(_Part):
    stream: str
    method: str
    plugins: list[str] = []
    buffer: int = 0
    seed: int = 0
    scale: str = ""
    identity: dict[str, str] = {}
    options: dict[str, dict[str, Any]] = {}


class _Stream(_Part):
    name: str
    test_samples: list[int]
    train_samples: list[int] = []
    class_names: list[str] = []
    classes_per_task: list[int] = []
    image_shape: list[int] = []
    mean: list[float] = []
    std: list[float] = []
    notes: list[str] = []


class _Geometry(_Part):
    """The geometry after one task; ``center_cosines`` is square."""

    center_norm: list[float]
    radius: list[float]
    drift: list[float]
    vertex_cosine: list[float] = []
    center_cosines: list[list[float]] = []
    center_cosine_mean: float | None = None
    center_cosine_max: float | None = None
    etf_cosine: float | None = None
    threshold: float | None = None
    pairs_below_threshold: float | None = None
    theory: dict[str, float] = {}
    last_step: dict[str, float | None] = {}


class Record(_Part):
    """What a complete run computed; ``record["matrix"]["class_il"]`` is the plain value as it stands in the file.

    Build one from plain data with `Record.parse`.
    """

    format: int
    run_id: str
    title: str
    settings: _Settings
    stream: _Stream
    matrix: dict[str, _Matrix]
    geometry: list[_Geometry]
    timings: list[dict[str, float]]
    sources: dict[str, str] = {}
    sees_all_tasks: bool = False
    deviations: dict[str, list[str]] = {}
    environment: dict[str, str | int | float | None] = {}
    memory: dict[str, int] = {}
    seconds: float = 0.0
    steps: int = 0
    parameters: int = 0
    weights_sha256: str = ""
    predictor_sha256: str = ""
    _data: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _sizes_agree(self) -> Record:
        tasks = len(self.stream.test_samples)
        if not {*SCENARIOS} <= {*self.matrix}:
            raise ValueError(f"there must be a matrix of {' and of '.join(SCENARIOS)}")
        for rows in self.matrix.values():
            lower = [value for number, row in enumerate(rows) for value in row[: number + 1]]
            if len(rows) != tasks or any(len(row) != tasks for row in rows) or None in lower:
                raise ValueError(f"the matrices must have {tasks} rows and columns")
        for number, entry in enumerate(self.geometry, 1):
            cosines = entry.center_cosines
            needed = [len(entry.center_norm), len(entry.radius), len(entry.drift), *map(len, cosines)]
            if set(needed) != {number} or not {len(entry.vertex_cosine), len(cosines)} <= {0, number}:
                raise ValueError(f"the geometry after task {number} must describe {number} tasks")
        if tasks == 0 or len(self.geometry) > tasks or len(self.timings) > tasks:
            raise ValueError(f"geometry and timings must describe {tasks} tasks")
        try:
            _ = self.metrics
        except ArithmeticError as error:
            raise ValueError(f"the metrics cannot be computed ({error})") from None
        return self

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "") -> Record:
        """Check plain values; `where` names the record in an error message, by default the run does."""
        data = {name: value for name, value in data.items() if name != "metrics"}
        where = where or f"the record of the run {data.get('run_id', 'without a name')}"
        try:
            record = cls.model_validate(data)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"])) or "its sizes"
            raise UserError(
                f"{where} is not the record of a run ({place}: {problem['msg']}); delete it to run again"
            ) from None
        record._data = data
        return record

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the plain values with the metrics."""
        return {**self._data, "metrics": self.metrics}

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.settings.seed

    @property
    def name(self) -> str:
        """Method and plug-ins, as tables and pictures call them."""
        return row_name(self.title, self.flat)

    @property
    def method(self) -> str:
        """The name of the method, or the path of its file."""
        return self.settings.method

    @property
    def plugins(self) -> tuple[str, ...]:
        """The names of the plug-ins."""
        return tuple(self.settings.plugins)

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The settings that were given in place of the preset."""
        return tuple(name for name, source in self.sources.items() if source == "given" and "." in name)

    @cached_property
    def flat(self) -> dict[str, Any]:
        """The settings under dotted names, without the digests of code and data."""
        return flatten({name: value for name, value in self["settings"].items() if name != "identity"})

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Every metric by scenario and name."""
        samples = self.stream.test_samples
        return {name: summarize(matrix, samples) for name, matrix in self.matrix.items()}

    def metric(self, name: str = "final_accuracy", scenario: str = "class_il") -> float:
        """Return one metric, class-incremental by default."""
        if scenario not in self.metrics:
            raise UserError(f"there is no scenario {scenario!r}; allowed: {', '.join(self.metrics)}")
        if name not in self.metrics[scenario]:
            raise UserError(f"there is no metric {name!r}; allowed: {', '.join(self.metrics[scenario])}")
        return float(self.metrics[scenario][name])

    def phase_seconds(self) -> dict[str, float]:
        """Return the seconds of each phase, summed over the tasks."""
        names = dict.fromkeys(name for phases in self.timings for name in phases)
        return {name: sum(phases.get(name, 0.0) for phases in self.timings) for name in names}


def read_record(folder: Path) -> Record | None:
    """Return the record of a complete run, or None if there is none."""
    path = folder / RECORD
    try:
        data = json.loads(read_text(path))
    except MissingError:
        return None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not the record of a run ({error}); delete it to run again") from None
    if not isinstance(data, dict) or "run_id" not in data:
        raise UserError(f"{path} is not the record of a run; delete it to run again")
    name = folder.absolute().name
    if _RUN_ID.fullmatch(name) and data["run_id"] != name:
        raise UserError(f"{path} is the record of the run {data['run_id']}, a copy; delete it to run again")
    if data.get("format") != FORMAT:
        raise UserError(
            f"{path} has the format {data.get('format', 1)!r} of another version of gplasc, this one reads {FORMAT}; "
            "delete it to run again"
        )
    return Record.parse(data, str(path))


def write_record(folder: Path, record: Record) -> None:
    """Write the record of a complete run; its metrics are not stored."""
    write_atomic(folder / RECORD, json.dumps(record._data, indent=1) + "\n")


def load_records(folders: Iterable[Path]) -> tuple[list[Record], list[str]]:
    """Read the complete runs in (or below) the folders, each once, and say in a sentence which were skipped and why."""
    folders = list(folders)
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}; give the folder that `gplasc run --out` wrote to")
    records: dict[str, Record] = {}
    skipped = []
    for path in dict.fromkeys(path for folder in folders for path in sorted(folder.rglob(RECORD))):
        try:
            if record := read_record(path.parent):
                first = records.setdefault(record.run_id, record)
                if str(first.matrix) != str(record.matrix):
                    skipped.append(
                        f"{path} has other numbers of the run {record.run_id} than a record read before"
                    )
        except UserError as error:
            skipped.append(str(error))
    return list(records.values()), skipped
