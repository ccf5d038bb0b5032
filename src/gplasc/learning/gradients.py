"""Gradients as one vector, for methods that change them between backward and the optimizer's step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gplasc.learning.context import Context


def trained(modules: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that have a gradient in this step, in a fixed order: the others do not take part."""
    return [parameter for parameter in modules.parameters() if parameter.grad is not None]


def flat_gradient(modules: nn.Module) -> Tensor:
    """Return the gradients of `trained` parameters as one vector, (P,)."""
    return torch.cat([p.grad.reshape(-1) for p in trained(modules) if p.grad is not None])


def set_gradient(modules: nn.Module, gradient: Tensor) -> None:
    """Write a vector, (P,), back into the gradients it was read from by `flat_gradient`."""
    start = 0
    for parameter in trained(modules):
        assert parameter.grad is not None
        count = parameter.numel()
        parameter.grad.copy_(gradient[start : start + count].view_as(parameter))
        start += count


def memory_gradient(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of the cross-entropy of remembered samples by the `trained` parameters, (P,).

    x: (N, C, H, W) uint8; y: (N,). The network runs as it is trained, in training mode and augmented; gradients already
    there are left alone. A parameter that the logits do not depend on (a plug-in's) has gradient 0.
    """
    part = ctx.part(x, y, augmentation=ctx.method.augmentation)
    with ctx.autocast():
        logits = ctx.forward(part).logits
    loss = nn.functional.cross_entropy(logits.float(), part.y)
    parameters = trained(ctx.modules)
    scaled = ctx.scaler.scale(loss)
    found = torch.autograd.grad(scaled, parameters, allow_unused=True, materialize_grads=True)
    gradient = ctx.processes.mean(torch.cat([value.reshape(-1) for value in found]))
    return gradient / ctx.scaler.scale(torch.ones_like(loss)) if ctx.scaler.is_enabled() else gradient


def average_gradients(ctx: Context) -> None:
    """Replace every gradient by its mean over the processes."""
    if ctx.processes.size > 1:
        set_gradient(ctx.modules, ctx.processes.mean(flat_gradient(ctx.modules)))
