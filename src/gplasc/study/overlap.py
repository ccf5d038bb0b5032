"""The overlap of the tasks of finished runs."""

from __future__ import annotations

import json

import torch

from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.evaluation.overlap import TaskOverlap, task_overlap
from gplasc.results.record import RECORD
from gplasc.runs.restore import Restored
from gplasc.study.cell import Cell
from gplasc.study.study import Study

_DRAWS = 5000


def run_overlap(opened: Restored) -> TaskOverlap:
    """Return the overlap of the tasks of a finished run, measured with the samples that it was evaluated on."""
    features = [opened.features(opened.evaluation_samples(task)) for task in opened.stream]
    generator = torch.Generator().manual_seed(opened.config.seed)
    return task_overlap(features, generator=generator, draws=_DRAWS)


def mean_overlap(study: Study, cell: Cell, *, measure: bool) -> float | None:
    """Return the mean overlap of two tasks of a run, which is kept in its folder.

    None if it was not measured before, and is not asked for or cannot be measured without the folder of the run.
    """
    folder = study.workspace.out / cell.run_id
    path = folder / "overlap.json"
    if path.exists():
        try:
            return float(json.loads(path.read_text(encoding="utf-8"))["mean"])
        except (ValueError, LookupError, TypeError):
            raise UserError(f"{path} is damaged; delete it, and measure again with --overlap") from None
    if not measure or not (folder / RECORD).exists():
        return None
    mean = float(run_overlap(study.restore(cell)).pairs.mean())
    write_atomic(path, json.dumps({"mean": mean}) + "\n")
    return mean
