"""The record of a run: plain data with a format version; metrics are computed from its matrices when it is read."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import gplasc
from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.evaluation.metrics import summarize
from gplasc.results.schema import RecordSchema

RECORD = "record.json"
FORMAT = 2


class NotARecord(UserError):
    """A file that is no record of this version."""


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a complete run, with its metrics, or None if there is none.

    Raises:
        NotARecord: If the file is damaged, or was written by something else or another version.
    """
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotARecord(f"{path} cannot be read ({error.strerror}); check its permissions") from None
    except (ValueError, RecursionError) as error:
        raise NotARecord(f"{path} is not the record of a run ({error}); delete it to run again") from None
    if not isinstance(record, dict) or "run_id" not in record:
        raise NotARecord(f"{path} is not the record of a run; delete it to run again")
    if record.get("format") != FORMAT:
        raise NotARecord(
            f"{path} has the format {record.get('format', 1)!r} of another version of gplasc, this one reads {FORMAT}; "
            "delete it to run again"
        )
    try:
        RecordSchema.model_validate(record)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "its sizes"
        raise NotARecord(
            f"{path} is not the record of a run ({where}: {problem['msg']}); delete it to run again"
        ) from None
    return with_metrics(record)


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record of a complete run; its metrics are not stored."""
    stored = {name: value for name, value in record.items() if name != "metrics"}
    write_atomic(folder / RECORD, json.dumps(stored, indent=1) + "\n")


def with_metrics(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with every metric of both scenarios."""
    try:
        samples = record["stream"]["test_samples"]
        metrics = {name: summarize(matrix, samples) for name, matrix in record["matrix"].items()}
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise NotARecord(
            f"the record of the run {record['run_id']} is damaged ({error}); run it again"
        ) from None
    return {**record, "metrics": metrics}


def square(rows: list[list[float]]) -> list[list[float | None]]:
    """Fill up the rows of an accuracy matrix with None for the tasks still to come.

    >>> square([[90.0], [60.0, 80.0]])
    [[90.0, None], [60.0, 80.0]]
    """
    return [[*row, *[None] * (len(rows) - len(row))] for row in rows]


def environment(device: str, device_name: str, threads: int, versions: dict[str, str]) -> dict[str, Any]:
    """Return with what and where a run was computed."""
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gplasc": gplasc.__version__,
        "commit": _commit(),
        "python": sys.version.split()[0],
        **versions,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": device_name or device,
        "threads": threads,
    }


@lru_cache
def _commit() -> str | None:
    """Return the commit of the source tree, if there is one."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
