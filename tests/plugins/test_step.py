"""One step of co2l+gplasc: how many functions of the package it passes, and how long they are."""

import inspect
import sys
from pathlib import Path

import torch

import gplasc

_ROOT = str(Path(gplasc.__file__).parent)
_FUNCTIONS, _FILES = 60, 20
_LINES = 50  # so that inlining is no way to fewer functions


def test_a_step_passes_few_functions(tiny, second_task):
    learner = second_task(tiny("co2l", ("gplasc",), **{"model.features": "signed"}))
    learner.ctx.modules.train()
    batch = learner.ctx.pool.take(torch.arange(0, len(learner.ctx.pool), 3))
    learner.step(batch)  # what is computed once a task
    passed = set()

    def count(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOT) and not code.co_name.startswith("<"):
            passed.add(code)

    sys.setprofile(count)
    try:
        learner.step(batch)
    finally:
        sys.setprofile(None)
    files = {code.co_filename for code in passed}
    lengths = {code.co_qualname: len(inspect.getsource(code).splitlines()) for code in passed}
    assert len(passed) > 20, "nothing was counted"
    assert (len(passed) <= _FUNCTIONS, len(files) <= _FILES) == (True, True), (len(passed), len(files))
    assert max(lengths.values()) <= _LINES, {name: n for name, n in lengths.items() if n > 40}
