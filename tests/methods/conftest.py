"""A learner of a small stream, before its first step or after some tasks."""

import pytest
import torch

from gplasc.learning.learner import Learner, Silent
from gplasc.running import open_configured_stream


class Stop(Exception):
    """The learner has come as far as the test wants it."""


class _Stopper(Silent):
    def __init__(self, task, step):
        self.task, self.step_number = task, step

    def step(self, learner, terms, lr, images):
        if learner.position.task == self.task and learner.position.step == self.step_number:
            raise Stop


@pytest.fixture
def learned(tiny):
    """Build a learner and let it learn up to step ``step`` of task ``task``, or everything."""

    def build(method, plugins=(), *, task=None, step=1, **settings):
        resolved = tiny(method, plugins, **{"model.features": "signed", "train.lr": 0.05, **settings})
        watcher = Silent() if task is None else _Stopper(task, step)
        learner = Learner(resolved.config, open_configured_stream(resolved, None), watcher=watcher)
        if task is None:
            learner.learn()
        else:
            with pytest.raises(Stop):
                learner.learn()
        return learner

    return build


@pytest.fixture
def next_batch():
    """The batch that a stopped learner would take next."""
    return lambda learner: learner.ctx.pool.take(learner.position.order[learner.position.step])


@pytest.fixture
def in_training_data():
    """Whether every image is one of the stream's training images, as it was before augmentation, with its label."""

    def check(learner, x, y):
        train = [task.train for task in learner.stream]
        images = torch.cat([samples.x for samples in train]).flatten(1)
        labels = torch.cat([samples.y for samples in train])
        same = (x.flatten(1).unsqueeze(1) == images).all(2) & (y.unsqueeze(1) == labels)
        return bool(same.any(1).all())

    return check
