"""Records as runs write them, made up in no time."""

import copy
import hashlib
import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from gplasc.results.record import FORMAT, Record

MakeRecord = Callable[..., Record]


def _cosines(count: int) -> list[list[float]]:
    off = -1 / (count - 1) if count > 1 else 1.0
    return [[1.0 if i == j else off for j in range(count)] for i in range(count)]


def _geometry(tasks: int, plugins: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = []
    for after in range(1, tasks + 1):
        row: dict[str, Any] = {
            "center_norm": [0.8] * after,
            "radius": [0.3] * after,
            "center_cosine_mean": -1 / (after - 1) if after > 1 else None,
            "drift": [0.1 * (after - 1 - i) for i in range(after)],
        }
        if plugins:
            row |= {"vertex_cosine": [0.9] * after, "threshold": 0.1, "pairs_below_threshold": 0.0}
        rows.append(row)
    rows[-1]["center_cosines"] = _cosines(tasks)  # the last entry alone has the whole matrix
    return rows


def _record(
    method: str = "co2l",
    plugins: tuple[str, ...] = (),
    *,
    seed: int = 0,
    stream: str = "seq-cifar10",
    scale: str = "cpu",
    buffer: int = 200,
    tasks: int = 3,
    accuracy: float = 50.0,
    settings: dict[str, Any] | None = None,
    class_names: list[str] | None = None,
) -> dict[str, Any]:
    draw = random.Random(f"{method}{plugins}{seed}{settings}")
    matrix: list[list[float | None]] = [
        [accuracy + 10 * (i == t) + draw.uniform(-1, 1) if i <= t else None for i in range(tasks)]
        for t in range(tasks)
    ]
    given = {"train": {"lr": 0.1, "milestones": [60, 75]}} | (settings or {})
    options = {method: {"temperature": 0.1}} | ({"gplasc": {"margin": 0.1}} if plugins else {})
    values = {"stream": stream, "method": method, "plugins": list(plugins), "buffer": buffer, "seed": seed}
    values |= {"scale": scale, **given, "options": options}
    names = [f"train.{name}" for name in given["train"]]
    return {
        "format": FORMAT,
        "run_id": hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12],
        "title": "+".join((method, *plugins)),
        "settings": values,
        "sources": dict.fromkeys(names, "given" if settings else "a preset"),
        "stream": {
            "name": stream,
            "class_names": class_names or [f"class {i}" for i in range(2 * tasks)],
            "classes_per_task": [2] * tasks,
            "train_samples": [10] * tasks,
            "test_samples": [10] * tasks,
            "image_shape": [3, 8, 8],
            "notes": [],
        },
        "matrix": {"class_il": matrix, "task_il": copy.deepcopy(matrix)},
        "geometry": _geometry(tasks, plugins),
        "timings": [{"train": 2.0 if plugins else 1.0, "evaluation": 0.5} for _ in range(tasks)],
        "seconds": 4.5,
        "steps": 12,
        "parameters": 1000,
        "memory": {"rows": buffer, "bytes": 100},
        "deviations": {method: ["does a < b & c"]},
        "weights_sha256": "ab" * 32,
        "environment": {"finished": "2026-01-02T03:04:05+00:00", "gplasc": "0.1.0", "commit": None}
        | {"device": "cpu"},
    }


@pytest.fixture(scope="session")
def make_data() -> Callable[..., dict[str, Any]]:
    """A function that makes the plain content of a record."""
    return _record


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    """A function that makes the record of a run."""
    return lambda *given, **more: Record.parse(_record(*given, **more))


@pytest.fixture(scope="session")
def hostile_records() -> list[Record]:
    """Runs whose every name tries to become markup, and whose numbers are partly missing."""
    attack = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    records = []
    for plugins in ((), ("gplasc",)):
        for seed in (0, 1):
            more = {"seed": seed, "stream": f"folder:{attack}", "class_names": [attack] * 6}
            record = _record("my<b>method", plugins, **more)
            record["stream"]["notes"] = [attack]
            record["deviations"] = {attack: [attack]}
            record["environment"]["platform"] = attack
            record["settings"]["data"] = {"path": f"{attack}{bool(plugins)}"}
            if seed and not plugins:
                record["matrix"]["class_il"][2][0] = math.nan
            records.append(Record.parse(record))
    return records
