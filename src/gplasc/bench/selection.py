"""Filling a memory and choosing by gradients, against plain loops over samples."""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn

from gplasc.bench.clock import alternate, ratio
from gplasc.bench.figure import Figure
from gplasc.memory import Buffer
from gplasc.memory.gradient_diversity import diverse_slots, gradient_products, similarity_scores
from gplasc.memory.reservoir import offer
from gplasc.models import LinearClassifier, Network, build_encoder

_BAR = 10.0


def measure_selection(quick: bool) -> list[Figure]:
    """Measure the reservoir and GSS against loops that treat one sample after the other."""
    offered, candidates, rounds = (200, 4, 1) if quick else (20_000, 32, 3)
    return [_reservoir(offered, offered // 10, rounds), _gradient_diversity(candidates, 200, rounds)]


def _reservoir(count: int, capacity: int, rounds: int) -> Figure:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (count, 1, 28, 28), dtype=torch.uint8, generator=generator)
    y = torch.randint(10, (count,), generator=generator)

    def ours() -> None:
        memory = Buffer(capacity)
        for some_x, some_y in zip(x.split(256), y.split(256), strict=True):
            offer(memory, {"x": some_x, "y": some_y}, generator)

    def plain() -> None:
        kept_x, kept_y = torch.zeros(capacity, 1, 28, 28, dtype=torch.uint8), torch.zeros(capacity)
        for number in range(count):
            slot = number
            if number >= capacity:
                slot = int(torch.randint(number + 1, (), generator=generator))
            if slot < capacity:
                kept_x[slot], kept_y[slot] = x[number], y[number]

    times = alternate({"ours": ours, "plain": plain}, rounds)
    name = f"loop over samples / ours, {count} offered to a reservoir of {capacity}"
    return Figure("loop", name, ratio(times, "plain", "ours"), _BAR, "least")


def _gradient_diversity(candidates: int, capacity: int, rounds: int) -> Figure:
    """GSS draws as many samples of the memory as there are candidates, and compares gradients with theirs."""
    generator = torch.Generator().manual_seed(0)
    encoder = build_encoder("small", in_channels=1, width=16, generator=generator)
    classifier = LinearClassifier(encoder.feature_dim, 10, generator=generator)
    network = Network(encoder, classifier=classifier).eval()
    weights = list(network.parameters())
    x = torch.randn(candidates + capacity, 1, 28, 28, generator=generator)
    y = torch.randint(10, (candidates + capacity,), generator=generator)
    scores = torch.rand(capacity, generator=generator) + 0.5

    def subset() -> Tensor:
        return candidates + torch.randperm(capacity, generator=generator)[:candidates]

    def gradient(number: int) -> Tensor:
        rows = slice(number, number + 1)
        loss = nn.functional.cross_entropy(network(x[rows]).logits, y[rows])
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)])

    def plain() -> None:
        for number in range(candidates):
            known = [gradient(other) for other in subset().tolist()]
            own = gradient(number)
            score = 1 + max(float(torch.cosine_similarity(own, other, dim=0)) for other in known)
            victim = int(torch.multinomial(scores, 1, generator=generator))
            _ = random.random() < float(scores[victim]) / (float(scores[victim]) + score)

    def ours() -> None:
        rows = torch.cat([torch.arange(candidates), subset()])
        _, found = similarity_scores(gradient_products(network, x[rows], y[rows]), candidates)
        diverse_slots(scores, found, generator)

    times = alternate({"ours": ours, "plain": plain}, rounds)
    name = f"loop over samples / ours, GSS with {candidates} candidates"
    return Figure("loop", name, ratio(times, "plain", "ours"), _BAR, "least")
