"""A learner of a small stream, before its first step or after some tasks."""

import pytest
import torch

from gplasc.learning import Callback


class Stop(Exception):
    """The learner has come as far as the test wants it."""


class _Stopper(Callback):
    def __init__(self, task, step):
        self.task, self.step = task, step

    def on_step_end(self, learner):
        if learner.position.task == self.task and learner.position.step == self.step:
            raise Stop


@pytest.fixture
def learned(tiny, new_learner):
    """Build a learner and let it learn up to step ``step`` of task ``task``, or everything."""

    def learn(method, plugins=(), *, task=None, step=1, **settings):
        resolved = tiny(method, plugins, **{"model.features": "signed", "train.lr": 0.05, **settings})
        learner = new_learner(resolved, _Stopper(task, step))
        if task is None:
            learner.learn(learner.stream)
        else:
            with pytest.raises(Stop):
                learner.learn(learner.stream)
        return learner

    return learn


@pytest.fixture
def next_batch():
    """The batch that a stopped learner would take next."""
    return lambda learner: learner.ctx.pool.take(learner.position.order[learner.position.step])


@pytest.fixture
def forwarded():
    """The method's parts of a batch, forwarded as the learner does."""

    def forward(learner, batch):
        parts = learner.method.parts(batch, learner.ctx)
        for part in parts.values():
            part.out = learner.ctx.forward(part)
        return parts

    return forward


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
