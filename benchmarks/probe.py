"""The two modes of the linear probe on one trained encoder: accuracy and time, several probe seeds.

    gplasc run --stream seq-digits --method co2l --out runs
    python benchmarks/probe.py runs/RUN_ID --seeds 5

The probe is trained on training images of all tasks and evaluated on all test images; time is processor time.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch

from gplasc.learning.pool import Pool
from gplasc.learning.probe import train_probe
from gplasc.random import Generators
from gplasc.restore import restore


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--images", type=int, help="training images a task; default: all")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    restored = restore(options.run, data_dir=options.data_dir)
    learner, ctx = restored.learner, restored.learner.ctx
    learner.enter(restored.stream[len(restored.stream) - 1])
    mixed = torch.Generator().manual_seed(0)
    trains = [task.train for task in restored.stream]
    ctx.pool = Pool(
        [train.take(torch.randperm(len(train), generator=mixed)[: options.images]) for train in trains]
    )
    tests = [restored.evaluation_samples(task) for task in restored.stream]
    features = torch.cat([ctx.features(test) for test in tests])
    y = torch.cat([test.y for test in tests])
    accuracy: dict[str, list[float]] = {"cached": [], "published": []}
    seconds: dict[str, list[float]] = {"cached": [], "published": []}
    for seed in range(options.seeds):
        for mode in ("cached", "published"):
            probe = restored.config.probe.model_copy(update={"mode": mode})
            ctx.config = restored.config.model_copy(update={"probe": probe})
            ctx.random = Generators(seed)
            start = time.process_time()
            classifier = train_probe(ctx)
            seconds[mode].append(time.process_time() - start)
            accuracy[mode].append(100 * (classifier(features).argmax(1).cpu() == y).float().mean().item())
    for mode in accuracy:
        spread = statistics.stdev(accuracy[mode]) if options.seeds > 1 else float("nan")
        print(
            f"{mode:<10} accuracy {statistics.mean(accuracy[mode]):.2f} ± {spread:.2f} (n={options.seeds}), "
            f"{statistics.median(seconds[mode]):.1f} s of processor time"
        )
    ratio = statistics.median(p / c for c, p in zip(seconds["cached"], seconds["published"], strict=True))
    print(f"published / cached time: {ratio:.1f}")


if __name__ == "__main__":
    main()
