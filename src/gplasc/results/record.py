"""The record of a run: settings, matrices, metrics, geometry, timings, and where it was computed."""

from __future__ import annotations

import datetime
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import torch

import gplasc
from gplasc.evaluation.metrics import summarize
from gplasc.learning.learner import Learner, digest, evaluation_samples
from gplasc.resolve import Resolved


def build_record(resolved: Resolved, learner: Learner) -> dict[str, Any]:
    """Describe a finished run completely, as plain JSON values."""
    config, stream, ctx = resolved.config, learner.stream, learner.ctx
    samples = [len(evaluation_samples(task, config)) for task in stream]
    return {
        "run_id": config.run_id,
        "title": config.title,
        "settings": config.model_dump(mode="json"),
        "sources": resolved.sources,
        "stream": {
            "name": stream.name,
            "class_names": list(stream.class_names),
            "classes_per_task": list(stream.classes_per_task),
            "train_samples": [len(task.train) for task in stream],
            "test_samples": samples,
            "image_shape": list(stream.image_shape),
            "notes": list(stream.notes),
        },
        "matrix": {"class_il": learner.class_il, "task_il": learner.task_il},
        "metrics": {
            "class_il": summarize(learner.class_il, samples),
            "task_il": summarize(learner.task_il, samples),
        },
        "geometry": learner.geometry,
        "timings": learner.timings,
        "seconds": sum(sum(phases.values()) for phases in learner.timings),
        "steps": learner.position.total_steps,
        "parameters": sum(p.numel() for p in ctx.modules.parameters()),
        "memory": {"rows": len(ctx.memory), "bytes": ctx.memory.num_bytes},
        "deviations": {
            name: list(component.DEVIATIONS)
            for name, component in zip(config.options, (learner.method, *learner.plugins), strict=True)
        },
        "weights_sha256": digest(ctx.modules.state_dict()),
        "memory_sha256": digest(ctx.memory.rows()),
        "environment": environment(str(ctx.device)),
    }


def environment(device: str) -> dict[str, Any]:
    """Say with what and where a run was computed."""
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gplasc": gplasc.__version__,
        "commit": _commit(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(),
    }


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
