"""GSS: samples are kept whose gradients point in different directions (Aljundi et al., NeurIPS 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from gplasc.models import Network


class _Logits(nn.Module):
    """The network as a function to logits: its outputs are lazy, and must be asked for inside the call."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).logits


def sample_gradients(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of each sample's cross-entropy by all weights that the logits depend on, (N, P).

    x: (N, C, H, W) normalised images; y: (N,). One vectorised pass, not one backward pass a sample. BatchNorm uses its
    running statistics, without which a gradient of one sample would not exist; nothing of the network is changed.
    """
    model, weights, fixed = _as_function(network)

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(model, (weights, fixed), (x.unsqueeze(0),))
        return nn.functional.cross_entropy(logits.float(), y.unsqueeze(0))

    with _evaluating(network):
        found = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    return torch.cat([value.flatten(1) for value in found.values()], dim=1)


def batch_gradient(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the mean cross-entropy of a batch, (P,): the mean of `sample_gradients`, at a lower price."""
    model, weights, fixed = _as_function(network)

    def loss(weights: dict[str, Tensor]) -> Tensor:
        logits = functional_call(model, (weights, fixed), (x,))
        return nn.functional.cross_entropy(logits.float(), y)

    with _evaluating(network):
        found = grad(loss)(weights)
    return torch.cat([value.flatten() for value in found.values()])


def similarity_scores(gradients: Tensor, references: Tensor) -> Tensor:
    """``1 + max over references of the cosine``, in 0..2: (N, P) and (K, P), K > 0, to (N,)."""
    units = nn.functional.normalize(gradients, dim=1)
    return 1 + (units @ nn.functional.normalize(references, dim=1).T).amax(1)


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


def _as_function(network: Network) -> tuple[nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    """Split the network into a function, the weights that its logits depend on, and everything else."""
    model = _Logits(network)
    fixed = {name: value.detach() for name, value in model.named_buffers()}
    weights: dict[str, Tensor] = {}
    for name, value in model.named_parameters():
        beside = name.startswith("network.projection.")  # a plug-in's head: no logit depends on it
        (fixed if beside else weights)[name] = value.detach()
    return model, weights, fixed


@contextmanager
def _evaluating(network: Network) -> Iterator[None]:
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)
