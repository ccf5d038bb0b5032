"""What a record must hold, and of which types, so that whoever reads one may trust it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

_Row = list[float | None]


class _Part(BaseModel):
    """Part of a record: nothing is converted, and names that a later version adds are allowed."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Settings(_Part):
    stream: str
    method: str
    plugins: list[str] = []
    buffer: int = 0
    seed: int = 0
    scale: str = ""
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


class _Matrix(_Part):
    class_il: list[_Row]
    task_il: list[_Row]


class _Diagnosis(_Part):
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


class RecordSchema(_Part):
    """The types of a record's values; see `gplasc.runs.execute` for what writes one."""

    format: int
    run_id: str
    title: str
    settings: _Settings
    stream: _Stream
    matrix: _Matrix
    geometry: list[_Diagnosis]
    timings: list[dict[str, float]]
    sources: dict[str, str] = {}
    deviations: dict[str, list[str]] = {}
    environment: dict[str, str | int | float | None] = {}
    memory: dict[str, int] = {}
    seconds: float = 0.0
    steps: int = 0
    parameters: int = 0
    weights_sha256: str = ""
    predictor_sha256: str = ""

    @model_validator(mode="after")
    def _sizes_agree(self) -> RecordSchema:
        tasks = len(self.stream.test_samples)
        for rows in (self.matrix.class_il, self.matrix.task_il):
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
        return self
