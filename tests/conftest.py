"""What all tests share: one thread each, and small runs."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from gplasc.resolve import Resolved, resolve

TINY = "synthetic:tasks=3,classes=2,size=8,channels=1,train=10,test=6"


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def tiny():
    """Settings of a run that takes a second: three tasks of two classes, a handful of steps."""

    def settings(
        method: str = "co2l", plugins: tuple[str, ...] = (), seed: int = 0, **more: object
    ) -> Resolved:
        base = {"model.encoder": "small", "model.features": "signed", "train.batch": 8}
        return resolve(TINY, method, plugins, buffer=9, seed=seed, scale="smoke", settings=base | more)

    return settings
