"""What all tests share: one thread each, and small runs."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest
import torch

from gplasc.learning import Callback, Learner
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.spec import RunRequest, RunSpec

SLOW = '''
import time
from pathlib import Path

import gplasc


class Slow(gplasc.Plugin):
    """Short features. From the second task on each step takes a second while the file `hold` exists."""

    def loss(self, method_parts, parts, ctx):
        if ctx.task.index and Path("HOLD").exists():
            time.sleep(1)
        squares = [part.out.features.square().sum(1).mean() for part in method_parts.values()]
        return {"length": 0.001 * sum(squares)}
'''
TINY = "synthetic:tasks=3,classes=2,size=8,channels=1,train=10,test=6"


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def write_slow_plugin():
    """Return a function that writes a plug-in, with which a run does not end while the file `hold` exists.

    A test that stops a run does so between its first checkpoint and its end, however fast or slow the machine is.
    """

    def write(path: Path, hold: Path) -> Path:
        path.write_text(SLOW.replace("HOLD", str(hold)))
        return path

    return write


@pytest.fixture
def tiny():
    """Settings of a run that takes a second: three tasks of two classes, a handful of steps."""

    def settings(
        method: str = "co2l", plugins: tuple[str, ...] = (), seed: int = 0, **more: object
    ) -> RunSpec:
        base = {"model.encoder": "small", "model.features": "signed", "train.batch": 8}
        return RunRequest(
            TINY, method, plugins, buffer=9, seed=seed, scale="smoke", settings=base | more
        ).resolve()

    return settings


@pytest.fixture
def new_learner():
    """Build the learner of some settings, before its first step; its attribute `stream` is what it is to learn."""

    def build(resolved: RunSpec, *callbacks: Callback, announced: bool = True) -> Learner:
        stream, _ = open_inputs(resolved, None)
        learner = build_learner(resolved.config, stream, announced=announced, callbacks=callbacks)
        learner.stream = stream
        return learner

    return build
