"""Step time of the plug-in and of the whole step against the bare encoder, as ratios measured in one run.

    python benchmarks/step.py                    # both widths
    python benchmarks/step.py --width 64 --batch 64 --rounds 8

Measured alternately on ready data, in the second task (previous model and memory are there), so that both sides of
a ratio see the same noise of the machine; time is that of the processor, and the median of the rounds'
ratios is printed.
"""

import argparse
import statistics
import time

import torch

from gplasc.learning.learner import Learner
from gplasc.methods.base import Part
from gplasc.resolve import resolve
from gplasc.streams import open_stream

STREAM = "synthetic:tasks=2,classes=2,size=32,channels=3,train={train},test=4"


def ready(method: str, plugins: tuple[str, ...], width: int, batch: int) -> tuple[Learner, object]:
    """Return a learner in its second task and a batch of it, a tenth of which is memory."""
    settings = {
        "model.width": width,
        "train.batch": batch,
        "data.images_per_class": None,
        "data.test_images_per_class": None,
    }
    config = resolve(
        STREAM.format(train=batch), method, plugins, buffer=batch // 8, scale="paper", settings=settings
    ).config
    learner = Learner(config, open_stream(config.stream))
    learner.enter(learner.stream[0])
    learner.method.end_task(learner.ctx)
    learner.ctx.keep_previous()
    learner.enter(learner.stream[1])
    learner.ctx.modules.train()
    index = torch.randperm(len(learner.ctx.pool), generator=torch.Generator().manual_seed(0))[:batch]
    batch_rows = learner.ctx.pool.take(index)
    # Ready data: augmentation is measured by benchmarks/augment.py.
    parts = learner.method.parts(batch_rows, learner.ctx)
    learner.method.parts = lambda batch, ctx: parts  # type: ignore[method-assign]
    return learner, batch_rows


def bare(learner: Learner, part: Part) -> None:
    """Forward and backward through the encoder alone."""
    learner.ctx.modules.zero_grad(set_to_none=True)
    learner.ctx.network.encoder(part.x).sum().backward()


def seconds(work) -> float:
    start = time.process_time()  # what others do on the machine does not count
    work()
    return time.process_time() - start


def measure(width: int, batch: int, rounds: int) -> None:
    co2l, rows = ready("co2l", (), width, batch)
    plus, plus_rows = ready("co2l", ("gplasc",), width, batch)
    supcon, supcon_rows = ready("supcon", (), width, batch)
    (part,) = supcon.method.parts(supcon_rows, supcon.ctx)
    works = {
        "co2l": lambda: co2l.step(rows),
        "co2l+gplasc": lambda: plus.step(plus_rows),
        "supcon": lambda: supcon.step(supcon_rows),
        "bare": lambda: bare(supcon, part),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for number in range(rounds):
        names = list(works) if number % 2 else list(works)[::-1]
        for name in names:
            times[name].append(seconds(works[name]))
    median = {name: statistics.median(values) for name, values in times.items()}
    plug = statistics.median(b / a for a, b in zip(times["co2l"], times["co2l+gplasc"], strict=True))
    whole = statistics.median(b / a for a, b in zip(times["supcon"], times["bare"], strict=True))
    print(f"width {width}, batch {batch} (x 2 views), {rounds} rounds, {torch.get_num_threads()} threads")
    for name, value in median.items():
        print(f"  {name:<12} {value * 1e3:9.1f} ms")
    print(f"  co2l+gplasc / co2l        {plug:.3f}")
    print(f"  bare encoder / supcon step {whole:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    for each in options.width:
        measure(each, options.batch, options.rounds)
