"""GSS: samples are kept whose gradients point in different directions (Aljundi et al., NeurIPS 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from gplasc.models import Network


def gradient_products(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """Inner products of the gradients of all pairs of samples, (N, N), without writing a gradient down as a whole.

    The gradients are those of `sample_gradients`. All samples go through the network once, forward and backward; a
    sample's gradient by the weights of a layer follows from what went into the layer and the gradient by what came out,
    and only products of it are kept, layer by layer. A network with other layers than convolution, linear and
    BatchNorm is left to `sample_gradients`.
    """
    layers = _trained_layers(network)
    if not all(_known(layer) for layer in layers):
        gradients = sample_gradients(network, x, y)
        return gradients @ gradients.T
    entered: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}
    errors: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}

    def watch(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        entered[layer].append(inputs[0].detach())
        # A hook belongs to the value as it is now, so that a ReLU may overwrite it later. Backward meets the last
        # call first.
        output.register_hook(lambda gradient: errors[layer].insert(0, gradient))

    handles = [layer.register_forward_hook(watch) for layer in layers]
    try:
        with _evaluating(network), torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = nn.functional.cross_entropy(network(x).logits.float(), y, reduction="sum")
            torch.autograd.grad(loss, x)  # only by the images: nobody needs the sums over samples
    finally:
        for handle in handles:
            handle.remove()
    products = torch.zeros(len(y), len(y), device=x.device)
    for layer in layers:
        calls = [_layer_gradients(layer, *call) for call in zip(entered[layer], errors[layer], strict=True)]
        for same in zip(*calls, strict=True):  # one weight's gradients, from each call of the layer
            gradient = sum(same[1:], start=same[0])
            products.addmm_(gradient, gradient.T)
    return products


def sample_gradients(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of each sample's cross-entropy by all weights that the logits depend on, (N, P).

    x: (N, C, H, W) normalized images; y: (N,). One vectorized pass, not one backward pass a sample. BatchNorm uses its
    running statistics, without which a gradient of one sample would not exist; nothing of the network is changed.
    """
    model = _Logits(network)
    fixed = {name: value.detach() for name, value in model.named_buffers()}
    weights: dict[str, Tensor] = {}
    for name, value in model.named_parameters():
        beside = name.startswith("network.projection.")  # a plug-in's head: no logit depends on it
        (fixed if beside else weights)[name] = value.detach()

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(model, (weights, fixed), (x.unsqueeze(0),))
        return nn.functional.cross_entropy(logits.float(), y.unsqueeze(0))

    with _evaluating(network):
        found = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    return torch.cat([value.flatten(1) for value in found.values()], dim=1)


def similarity_scores(products: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``1 + max over references of the cosine``, in 0..2, for the mean gradient of a batch and for each of its samples.

    products: (N, N) inner products of gradients, of a batch of ``count`` samples and the references behind it, at least
    one of each. Returns a number, (), and (count,).
    """
    lengths = products.diagonal().clamp(min=1e-30).sqrt()
    cosines = products[:count, count:] / lengths[:count].unsqueeze(1) / lengths[count:]
    length = products[:count, :count].mean().clamp(min=1e-30).sqrt()  # of the batch's mean gradient
    cosine = products[:count, count:].mean(0) / length / lengths[count:]
    return 1 + cosine.max(), 1 + cosines.amax(1)


def diverse_slots(scores: Tensor, candidates: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Let candidates compete for places in a full memory: the more alike a row is to others, the sooner it goes.

    Each candidate x challenges a row i drawn with probability ``s_i / sum s`` and takes its place with probability
    ``s_i / (s_i + c_x)``. scores: (M,) of the rows; candidates: (N,) scores. Returns positions among the candidates and
    the slots they take, (K,) each. The challenged rows are drawn together and without replacement, so no slot is taken
    twice; beyond M candidates nobody is left to challenge.
    """
    candidates = candidates[: len(scores)]
    if not len(candidates):
        return torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    weights = scores.double().clamp(
        min=1e-12
    )  # a row opposite to all others has score 0, and may still be drawn
    slots = torch.multinomial(weights, len(candidates), replacement=False, generator=generator)
    odds = weights[slots] / (weights[slots] + candidates.double())
    won = torch.rand(len(candidates), generator=generator, dtype=torch.float64) < odds
    return won.nonzero().flatten(), slots[won]


class _Logits(nn.Module):
    """The network as a function to logits: its outputs are lazy, and must be asked for inside the call."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).logits


def _trained_layers(network: Network) -> list[nn.Module]:
    """The layers with weights of their own that the logits depend on."""
    parts = [part for part in (network.encoder, network.classifier) if part is not None]
    layers = [layer for part in parts for layer in part.modules()]
    return [layer for layer in layers if next(layer.parameters(recurse=False), None) is not None]


def _known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return isinstance(layer, (nn.Linear, nn.BatchNorm2d))


def _layer_gradients(layer: nn.Module, x: Tensor, error: Tensor) -> list[Tensor]:
    """Each sample's gradient by each of a layer's weights, (N, P), from its input and the gradient by its output."""
    found = []
    if isinstance(layer, nn.Conv2d):
        assert not isinstance(layer.padding, str)
        patches = nn.functional.unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        error = error.flatten(2)
        found.append(torch.bmm(error, patches.transpose(1, 2)).flatten(1))
        if layer.bias is not None:
            found.append(error.sum(2))
    elif isinstance(layer, nn.BatchNorm2d):
        assert layer.running_mean is not None
        assert layer.running_var is not None
        scale = (layer.running_var + layer.eps).rsqrt().view(-1, 1, 1)
        found += [((x - layer.running_mean.view(-1, 1, 1)) * scale * error).sum((2, 3)), error.sum((2, 3))]
    else:
        found.append((error.unsqueeze(2) * x.unsqueeze(1)).flatten(1))
        if layer.bias is not None:
            found.append(error)
    return found


@contextmanager
def _evaluating(network: Network) -> Iterator[None]:
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)
