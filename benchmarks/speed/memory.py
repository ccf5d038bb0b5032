"""Memory: the losses of many rows, and a large buffer."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from functools import partial

import torch
from benchmarks.speed.clock import alternate, ratio
from benchmarks.speed.figure import Figure
from benchmarks.speed.resident import peak_bytes

from gplasc.memory import Buffer
from gplasc.memory.reservoir import offer

_LOSSES = ("supcon", "range_loss", "relation_distillation")


def measure_memory(quick: bool) -> list[Figure]:
    """Measure what the losses and the buffer need."""
    return [
        *_losses(256 if quick else 16_384, _LOSSES[:1] if quick else _LOSSES),
        *_buffer(100 if quick else 10_000),
    ]


def _losses(rows: int, names: Sequence[str]) -> list[Figure]:
    """Each loss runs in a process of its own, since the peak never falls; one that runs a tiny loss is subtracted."""
    context = multiprocessing.get_context("spawn")
    peaks = {}
    for name in ("baseline", *names):
        with context.Pool(1) as pool:
            peaks[name] = pool.apply(_peak_of_loss, (name, rows))
    return [
        Figure(
            "memory",
            f"{name} of {rows} rows, with gradient",
            (peaks[name] - peaks["baseline"]) / 1e9,
            1.5,
            unit="GB",
        )
        for name in names
    ]


def _peak_of_loss(name: str, rows: int) -> int:
    from gplasc import losses

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    z = losses.unit_rows(torch.randn(rows, 128, generator=generator)).requires_grad_()
    teacher = losses.unit_rows(torch.randn(rows, 128, generator=generator))
    y = torch.randint(0, 10, (rows,), generator=generator)

    def value(rows: int) -> torch.Tensor:
        if name == "range_loss":
            return losses.range_loss(z[:rows], y[:rows], 0.4)
        if name == "relation_distillation":
            return losses.relation_distillation(
                z[:rows], teacher[:rows], student_temperature=0.2, teacher_temperature=0.01
            )
        return losses.supcon(z[:rows], y[:rows], temperature=0.1)

    value(8).backward()  # code and buffers that any loss loads are not what is measured
    if name != "baseline":
        value(rows).backward()
    return peak_bytes()


def _buffer(smaller: int) -> list[Figure]:
    """Offer images of 64 px to a reservoir, and draw minibatches, with two capacities; both fit into no cache."""
    generator = torch.Generator().manual_seed(0)
    batch = torch.randint(256, (64, 3, 64, 64), dtype=torch.uint8, generator=generator)
    y = torch.zeros(64, dtype=torch.int64)
    memories = {"small": Buffer(smaller), "large": Buffer(10 * smaller)}
    for memory in memories.values():
        for start in range(0, memory.capacity, 64):
            count = min(64, memory.capacity - start)
            offer(memory, {"x": batch[:count], "y": y[:count]}, generator)
        memory.seen = 2 * memory.capacity  # half of what is offered enters

    def insert(memory: Buffer) -> None:
        offer(memory, {"x": batch, "y": y}, generator)
        memory.seen = 2 * memory.capacity

    def draw(memory: Buffer) -> None:
        memory.rows(memory.sample(64, generator))

    figures = []
    for name, work in (("insertion into", insert), ("sampling from", draw)):
        works = {
            size: partial(lambda work, memory: [work(memory) for _ in range(20)], work, memory)
            for size, memory in memories.items()
        }
        times = alternate(works, 15)
        title = f"{name} a memory of {10 * smaller} / {smaller} images of 64 px"
        figures.append(Figure("memory", title, ratio(times, "large", "small"), 1.2))
    return figures
