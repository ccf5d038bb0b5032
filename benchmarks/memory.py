"""Filling a memory and choosing by gradients, against plain loops over samples.

    python benchmarks/memory.py

Both sides do the same work in this one process, on one thread: the reservoir takes in a stream batch by batch, and
GSS compares the gradients of a batch with those of remembered samples and lets them compete. Prints one line each,
and fails if a required ratio is below 10.
"""

import random
import time
from collections.abc import Callable

import torch
from torch import nn

from gplasc.memory import Buffer
from gplasc.memory.gradient_diversity import diverse_slots, gradient_products, similarity_scores
from gplasc.memory.reservoir import offer
from gplasc.models import LinearClassifier, Network, build_encoder

LEAST_RATIO = 10.0


def race(repeats: int, *works: Callable[[], object]) -> list[float]:
    """The shortest of some runs of each, taken in turns: what it costs when nobody disturbs it."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for number, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def insertion(count: int, capacity: int, batch: int) -> list[float]:
    """Seconds of a loop over samples, and of ours."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (count, 1, 28, 28), dtype=torch.uint8, generator=generator)
    y = torch.randint(10, (count,), generator=generator)
    logits = torch.randn(count, 10, generator=generator)

    def ours() -> None:
        memory = Buffer(capacity)
        for start in range(0, count, batch):
            rows = slice(start, start + batch)
            offer(memory, {"x": x[rows], "y": y[rows], "logits": logits[rows]}, generator)

    def plain() -> None:
        kept_x = torch.zeros(capacity, 1, 28, 28, dtype=torch.uint8)
        kept_y = torch.zeros(capacity, dtype=torch.long)
        kept_logits = torch.zeros(capacity, 10)
        for number in range(count):
            slot = number
            if number >= capacity:
                slot = int(torch.randint(number + 1, (), generator=generator))
            if slot < capacity:
                kept_x[slot] = x[number]
                kept_y[slot] = y[number]
                kept_logits[slot] = logits[number]

    return race(10, plain, ours)


def selection(candidates: int, references: int, capacity: int) -> list[float]:
    """Seconds of GSS as its paper writes it, of the same with one subset for a whole batch, and of ours."""
    generator = torch.Generator().manual_seed(0)
    encoder = build_encoder("small", in_channels=1, width=16, features="relu", generator=generator)
    network = Network(encoder, classifier=LinearClassifier(encoder.feature_dim, 10, generator=generator))
    weights = list(network.parameters())
    x = torch.randn(candidates + capacity, 1, 28, 28, generator=generator)
    y = torch.randint(10, (candidates + capacity,), generator=generator)
    scores = torch.rand(capacity, generator=generator) + 0.5

    def subset() -> torch.Tensor:
        return candidates + torch.randperm(capacity, generator=generator)[:references]

    def gradients(index: torch.Tensor) -> list[torch.Tensor]:
        rows = []
        for number in index.tolist():
            loss = nn.functional.cross_entropy(network(x[number : number + 1]).logits, y[number : number + 1])
            rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)]))
        return rows

    def plain(fresh: bool) -> None:
        network.eval()
        known = gradients(subset())
        for number in range(candidates):
            if fresh:
                known = gradients(subset())
            (own,) = gradients(torch.tensor([number]))
            score = 1 + max(float(torch.cosine_similarity(own, other, dim=0)) for other in known)
            victim = int(torch.multinomial(scores, 1, generator=generator))
            _ = random.random() < float(scores[victim]) / (float(scores[victim]) + score)
        network.train()

    def ours() -> None:
        rows = torch.cat([torch.arange(candidates), subset()])
        _, found = similarity_scores(gradient_products(network, x[rows], y[rows]), candidates)
        diverse_slots(scores, found, generator)

    return race(3, lambda: plain(True), lambda: plain(False), ours)


def main() -> int:
    torch.set_num_threads(1)
    paper, cached, fast = selection(32, 32, 200)
    lines = [
        ("reservoir, 20000 offered to 2000 places by 256", *insertion(20_000, 2_000, 256), True),
        ("GSS, 32 samples against 32 of 200, a subset for each (the paper's loop)", paper, fast, True),
        # Told, not required. Nearly all are turned away, so that there is little to do but call:
        ("reservoir, 3200 offered to 200 places by 32", *insertion(3_200, 200, 32), False),
        # and what is left of the loop is arithmetic, which vectorizing does not take away.
        ("GSS, 32 samples against 32 of 200, one subset", cached, fast, False),
    ]
    failed = False
    for name, slow, quick, required in lines:
        failed |= required and slow / quick < LEAST_RATIO
        limit = f", at least {LEAST_RATIO:.0f} required" if required else ""
        print(f"{name}: loop {1e3 * slow:.1f} ms, ours {1e3 * quick:.1f} ms, {slow / quick:.1f} times{limit}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
