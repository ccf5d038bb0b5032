"""A learner at its second task, and the terms of its plug-in."""

import warnings

import pytest
import torch


@pytest.fixture
def second_task(new_learner):
    """A learner that stands at the beginning of its second task."""

    def enter(resolved):
        learner = new_learner(resolved)
        learner.enter(learner.stream[0])
        learner.method.end_task(learner.ctx)
        learner.keep_previous()
        learner.position.task = 1
        learner.enter(learner.stream[1], past=learner.stream[:1])
        return learner

    return enter


@pytest.fixture
def terms_of():
    """Returns the method's parts, the plug-in's, both forwarded, and the plug-in's terms for the whole pool."""

    def compute(learner):
        ctx, (plugin,) = learner.ctx, learner.plugins
        batch = ctx.pool.take(torch.arange(len(ctx.pool)))
        own = learner.method.parts(batch, ctx)
        more = plugin.parts(batch, own, ctx)
        for part in (*own.values(), *more.values()):
            part.out = ctx.forward(part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return own, more, plugin.loss(own, more, ctx)

    return compute
