"""GSS: the memory keeps samples whose gradients have different directions (Aljundi et al., NeurIPS 2019)."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from gplasc.models.statistics import evaluating


def gradient_products(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products (N, N) of the gradients of all pairs of samples, without storing a whole gradient.

    They are those of the cross-entropy by all parameters that the logits depend on; BatchNorm uses running statistics.
    One forward and one backward pass give the input and the output gradient of each layer; from these follow the
    gradients of its parameters, of which only products are kept. For a network with other layers than convolution,
    linear and BatchNorm, or whose layers do not see one row or image a sample, all gradients are computed at once.
    """
    layers = _trained_layers(network)
    if not all(_known(layer) for layer in layers):
        gradients = _sample_gradients(network, x, y)
        return gradients @ gradients.T
    entered: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}
    errors: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}

    def watch(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        entered[layer].append(inputs[0].detach())
        # The hook belongs to the current value, so that an in-place ReLU may overwrite it later. The backward pass
        # begins with the last call.
        output.register_hook(lambda gradient: errors[layer].insert(0, gradient))

    handles = [layer.register_forward_hook(watch) for layer in layers]
    try:
        with evaluating(network), torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = nn.functional.cross_entropy(network(x).logits.float(), y, reduction="sum")
            torch.autograd.grad(loss, x)  # by the images only: the sums over samples are not needed
    finally:
        for handle in handles:
            handle.remove()
    inputs = ((2 if isinstance(layer, nn.Linear) else 4, x) for layer in layers for x in entered[layer])
    if any(value.ndim != ndim or len(value) != len(y) for ndim, value in inputs):
        gradients = _sample_gradients(network, x, y)
        return gradients @ gradients.T
    products = torch.zeros(len(y), len(y), device=x.device)
    for layer in layers:
        calls = [_layer_gradients(layer, *call) for call in zip(entered[layer], errors[layer], strict=True)]
        for same in zip(*calls, strict=True):  # one weight's gradients, from each call of the layer
            gradient = sum(same[1:], start=same[0])
            products.addmm_(gradient, gradient.T)
    return products


def _sample_gradients(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of each sample's cross-entropy by all parameters that the logits depend on, (N, P)."""
    model = _Logits(network)
    fixed = {name: value.detach() for name, value in model.named_buffers()}
    weights: dict[str, Tensor] = {}
    for name, value in model.named_parameters():
        unused = name.startswith("network.projection.")  # the head of a plug-in: no logit depends on it
        (fixed if unused else weights)[name] = value.detach()

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(model, (weights, fixed), (x.unsqueeze(0),))
        return nn.functional.cross_entropy(logits.float(), y.unsqueeze(0))

    with evaluating(network):
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    return torch.cat([value.flatten(1) for value in gradients.values()], dim=1)


def similarity_scores(products: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return 1 + the largest cosine with a reference, for a batch of the first `count` samples and for each of them."""
    lengths = products.diagonal().clamp(min=1e-30).sqrt()
    cosines = products[:count, count:] / lengths[:count].unsqueeze(1) / lengths[count:]
    length = products[:count, :count].mean().clamp(min=1e-30).sqrt()  # of the batch's mean gradient
    cosine = products[:count, count:].mean(0) / length / lengths[count:]
    return 1 + cosine.max(), 1 + cosines.amax(1)


def diverse_slots(scores: Tensor, candidates: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Select the candidates that replace rows of a full memory: their positions and their slots, (K,) each.

    Each candidate x, of score c_x, is compared with a row i drawn with probability ``s_i / sum s`` and replaces it with
    probability ``s_i / (s_i + c_x)``: a row that is similar to others is replaced sooner. The M rows are drawn together
    without replacement, so only the first M candidates are considered.
    """
    candidates = candidates[: len(scores)]
    if not len(candidates):
        return torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    # A row opposite to all others has score 0, and can still be drawn.
    weights = scores.double().clamp(min=1e-12)
    slots = torch.multinomial(weights, len(candidates), replacement=False, generator=generator)
    odds = weights[slots] / (weights[slots] + candidates.double())
    won = torch.rand(len(candidates), generator=generator, dtype=torch.float64) < odds
    return won.nonzero().flatten(), slots[won]


class _Logits(nn.Module):
    """The network as a function that returns logits: its outputs are lazy and must be computed inside the call."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x).logits
        return logits


def _trained_layers(network: nn.Module) -> list[nn.Module]:
    """Return the layers with parameters that the logits depend on."""
    modules = [part for part in (network.encoder, network.classifier) if isinstance(part, nn.Module)]
    layers = [layer for module in modules for layer in module.modules()]
    return [layer for layer in layers if next(layer.parameters(recurse=False), None) is not None]


def _known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return isinstance(layer, (nn.Linear, nn.BatchNorm2d))


def _layer_gradients(layer: nn.Module, x: Tensor, error: Tensor) -> list[Tensor]:
    """Return each sample's gradient by each parameter of a layer, (N, P), from its input and output gradient."""
    if isinstance(layer, nn.Conv2d):
        assert not isinstance(layer.padding, str)
        patches = nn.functional.unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        weight = torch.bmm(error.flatten(2), patches.transpose(1, 2)).flatten(1)
    elif isinstance(layer, nn.BatchNorm2d):
        assert layer.running_mean is not None
        assert layer.running_var is not None
        scale = (layer.running_var + layer.eps).rsqrt().view(-1, 1, 1)
        weight = ((x - layer.running_mean.view(-1, 1, 1)) * scale * error).sum((2, 3))
    else:
        weight = (error.unsqueeze(2) * x.unsqueeze(1)).flatten(1)
    return [weight] if layer.bias is None else [weight, error.sum((2, 3)) if error.ndim == 4 else error]
