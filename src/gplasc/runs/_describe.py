"""The record of a finished run."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy
import torch

import gplasc
from gplasc.learning import Learner
from gplasc.learning.checkpoints import digest
from gplasc.learning.evaluator import evaluation_samples
from gplasc.results.record import FORMAT, Record
from gplasc.runs.spec import RunSpec
from gplasc.streams import Stream


def describe(spec: RunSpec, learner: Learner, stream: Stream) -> Record:
    """Describe a finished run completely."""
    config, ctx = spec.config, learner.ctx
    data = {
        "format": FORMAT,
        "run_id": config.run_id,
        "title": config.title,
        "settings": config.model_dump(mode="json"),
        "sources": spec.sources,
        "sees_all_tasks": learner.method.pool == "everything",
        "stream": {
            "name": stream.name,
            "class_names": list(stream.class_names),
            "classes_per_task": list(stream.classes_per_task),
            "train_samples": [len(task.train) for task in stream],
            "test_samples": [len(evaluation_samples(task, config)) for task in stream],
            "image_shape": list(stream.image_shape),
            "mean": list(stream.mean),
            "std": list(stream.std),
            "notes": list(stream.notes),
        },
        "matrix": {"class_il": _square(learner.class_il), "task_il": _square(learner.task_il)},
        "geometry": learner.evaluator.geometry,
        "timings": learner.evaluator.timings,
        "seconds": sum(sum(task.values()) for task in learner.evaluator.timings),
        "steps": learner.position.total_steps,
        "memory": {"rows": len(ctx.memory), "bytes": ctx.memory.num_bytes},
        "processes": learner.hardware.processes.size,
        "parameters": sum(p.numel() for p in ctx.modules.parameters()),
        "deviations": {
            name: list(component.DEVIATIONS)
            for name, component in zip(config.options, learner.components, strict=True)
        },
        "weights_sha256": digest(ctx.modules.state_dict()),
        "predictor_sha256": digest(ctx.predictor.state_dict()) if ctx.predictor else "",
        "memory_sha256": digest(ctx.memory.rows()),
        "environment": _environment(ctx.device),
    }
    return Record.parse(json.loads(json.dumps(data)))


def _square(rows: list[list[float]]) -> list[list[float | None]]:
    """Fill up the rows of an accuracy matrix with None for the tasks still to come.

    >>> _square([[90.0], [60.0, 80.0]])
    [[90.0, None], [60.0, 80.0]]
    """
    return [[*row, *[None] * (len(rows) - len(row))] for row in rows]


def _environment(device: torch.device) -> dict[str, Any]:
    """Return with what and where a run was computed."""
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gplasc": gplasc.__version__,
        "commit": _commit(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
    }


@lru_cache
def _commit() -> str | None:
    """Return the commit of the source tree, if there is one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.check_output(command, text=True, timeout=5, stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.SubprocessError):
        return None
