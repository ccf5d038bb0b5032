"""Stage 2 of the contrastive methods: a linear classifier on the frozen encoder."""

import torch
from torch import nn

from gplasc.learning.context import Context
from gplasc.learning.optimizer import SGD


def train_probe(classifier: nn.Module, ctx: Context) -> None:
    """Train a linear classifier on the raw features of the task's samples and the memory.

    Classes are drawn equally often, as many draws an epoch as there are samples. In the mode ``published`` each draw
    is augmented and sent through the encoder; in the mode ``cached`` the features of a fixed number of augmented views
    are computed once and a draw picks one of them.
    """
    settings, generator = ctx.probe, ctx.random["probe"]
    y = ctx.pool.y
    weights = 1.0 / torch.bincount(y).double()[y]
    optimizer = SGD(classifier.parameters(), lr=settings.lr, momentum=settings.momentum)
    views = torch.empty(0)
    if settings.mode == "cached":
        passes = (ctx.features(ctx.pool, "contrastive", generator=generator) for _ in range(settings.views))
        views = torch.stack(list(passes))
    labels = ctx.to_device(y)
    for epoch in range(settings.epochs):
        ctx.progress("probe", epoch / settings.epochs)
        drop = sum(epoch >= milestone for milestone in settings.milestones)
        optimizer.param_groups[0]["lr"] = settings.lr * settings.decay**drop
        draws = torch.multinomial(weights, len(y), replacement=True, generator=generator)
        which = torch.randint(settings.views, (len(y),), generator=generator)
        for rows, view in zip(draws.split(settings.batch), which.split(settings.batch), strict=True):
            rows_there = ctx.to_device(rows)
            if settings.mode == "cached":
                features = views[ctx.to_device(view), rows_there]
            else:
                features = ctx._embed(ctx.pool.take(rows), "contrastive", generator).features.float()
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(classifier(features), labels[rows_there]).backward()
            optimizer.step()
    classifier.requires_grad_(False)
