"""The overlap of the tasks of finished runs."""

from __future__ import annotations

import torch

from gplasc.evaluation.overlap import TaskOverlap, task_overlap
from gplasc.runs.restore import Restored

_DRAWS = 5000


def run_overlap(opened: Restored) -> TaskOverlap:
    """Return the overlap of the tasks of a finished run, measured with the samples that it was evaluated on."""
    features = [opened.features(opened.evaluation_samples(task)) for task in opened.stream]
    generator = torch.Generator().manual_seed(opened.config.seed)
    return task_overlap(features, generator=generator, draws=_DRAWS)
