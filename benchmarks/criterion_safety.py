r"""Accuracy of a plain replay loop with and without the criterion, for ReLU and signed features.

    python benchmarks/criterion_safety.py --seeds 20                        # the defaults, all streams
    python benchmarks/criterion_safety.py --streams seq-digits --variants published nonnegative
    python benchmarks/criterion_safety.py --streams seq-digits --features relu --encoders plain --scale 0.1 --lr 0.1 \
        --variants published limited default         # no BatchNorm, short features, a high learning rate

The loop is what a user of `gplasc.GPLASC` writes: a small convolutional encoder with average pooling, a linear
classifier, cross-entropy on the current batch and a batch from a memory of 50 images, and the criterion's terms added.
Images are at most 16 px wide, 130 of each class are learned. For each variant of the criterion the table has the final
class-incremental accuracy in percent, mean and standard deviation over seeds; the mean paired difference to the loop
without the criterion (same seeds, same batches) with Student's interval of 95 percent; the share of features that are
0 for all test images of the last task; and how many seeds were warned of collapsed features. Both loops are
sensitive to rounding: "unchanged" adds a term of weight 1e-6, and its differences are those of chance.
"""

import argparse
import copy
import itertools
import statistics
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gplasc import GPLASC, open_stream
from gplasc.results.statistics import Difference, spread

STREAMS = ("seq-digits", "seq-fashion", "seq-cifar10")
PAPER = {"lambda_range": 1.0, "lambda_position": 1.0, "lambda_distill": 1.0}
VARIANTS: dict[str, dict[str, object]] = {
    "default": {},
    "published": {"frame": "simplex", "position_target": "unit", "limit_gradient": False, **PAPER},
    "simplex": {"frame": "simplex", **PAPER},
    "nonnegative": {"frame": "nonnegative", **PAPER},
    "orthonormal": {"frame": "orthonormal", **PAPER},
    "weights 0.1": {"lambda_range": 0.1, "lambda_position": 0.1, "lambda_distill": 0.1},
    "range 0.1": {"lambda_range": 0.1, "lambda_position": 0.0, "lambda_distill": 0.0},
    "position 0.1": {"lambda_range": 0.0, "lambda_position": 0.1, "lambda_distill": 0.0},
    "distill 0.1": {"lambda_range": 0.0, "lambda_position": 0.0, "lambda_distill": 0.1},
    "distill 1": {"lambda_range": 0.0, "lambda_position": 0.0, "lambda_distill": 1.0},
    "unchanged": {"lambda_range": 0.0, "lambda_position": 0.0, "lambda_distill": 1e-6},
    "limited": {"frame": "simplex", "position_target": "unit", **PAPER},
}
FEATURES, MEMORY, BATCH = 64, 50, 32
TEST_IMAGES_PER_CLASS = 500

Tasks = list[tuple[Tensor, Tensor, Tensor, Tensor]]


def load(name: str, images_per_class: int) -> Tasks:
    """Return training images, labels, test images and labels of each task, at most 16 px wide."""
    tasks = []
    for task in open_stream(name):
        parts: list[Tensor] = []
        for samples, count in ((task.train, images_per_class), (task.test, TEST_IMAGES_PER_CLASS)):
            index = torch.cat([(samples.y == c).nonzero().flatten()[:count] for c in task.classes])
            x = samples.x[index].float() / 255
            x = F.avg_pool2d(x, 2) if x.shape[-1] > 16 else x
            parts += [(x - 0.5) / 0.3, samples.y[index]]
        tasks.append((parts[0], parts[1], parts[2], parts[3]))
    return tasks


def build_encoder(channels: int, size: int, *, signed: bool, norm: bool) -> nn.Sequential:
    """Three convolutions and average pooling for images of 8 to 16 px; signed features lack the last ReLU."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((channels, 8, 1 if size <= 8 else 2), (8, 16, 2), (16, FEATURES, 2)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride, 1),
            nn.BatchNorm2d(outputs) if norm else nn.Identity(),
        ]
        if outputs < FEATURES or not signed:
            layers.append(nn.ReLU())
    encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in the stubs


def train(
    tasks: Tasks, criterion: GPLASC | None, seed: int, given: argparse.Namespace, *, signed: bool, norm: bool
) -> tuple[float, float]:
    """Learn all tasks; return the final accuracy in percent and the share of features that are always 0."""
    torch.manual_seed(seed)
    _, channels, size, _ = tasks[0][0].shape
    encoder = build_encoder(channels, size, signed=signed, norm=norm)
    with torch.no_grad():
        next(layer for layer in reversed(encoder) if isinstance(layer, nn.Conv2d)).weight.mul_(given.scale)
    head = nn.Linear(FEATURES, 1 + max(int(y.max()) for _, y, _, _ in tasks))
    parameters = [*encoder.parameters(), *head.parameters()]
    update: torch.optim.Optimizer = (
        torch.optim.Adam(parameters, given.lr or 1e-3)
        if given.optimizer == "adam"
        else torch.optim.SGD(parameters, given.lr or 0.05, momentum=0.9)
    )
    memory_x, memory_y = tasks[0][0][:0], tasks[0][1][:0]
    previous: nn.Sequential | None = None
    for task, (images, labels, _, _) in enumerate(tasks):
        encoder.train()
        for _ in range(given.epochs):
            for index in torch.randperm(len(labels)).split(BATCH):
                drawn = torch.randperm(len(memory_y))[:BATCH]
                x = torch.cat([images[index], memory_x[drawn]])
                y = torch.cat([labels[index], memory_y[drawn]])
                features, new = encoder(x), len(index)
                loss = F.cross_entropy(head(features), y)
                if criterion is not None:
                    old, teacher = None, None
                    if previous is not None:
                        old = features[new:]
                        with torch.no_grad():
                            teacher = previous(x[new:])
                    terms = criterion(
                        features[:new], y[:new], task, past_features=old, previous_features=teacher
                    )
                    loss = loss + sum(terms.values())
                update.zero_grad()
                loss.backward()
                update.step()
        previous = copy.deepcopy(encoder).eval()
        x, y = torch.cat([memory_x, images]), torch.cat([memory_y, labels])
        kept = []
        for label in y.unique():
            rows = (y == label).nonzero().flatten()
            kept.append(rows[torch.randperm(len(rows))[: MEMORY // len(y.unique())]])
        memory_x, memory_y = x[torch.cat(kept)], y[torch.cat(kept)]
    encoder.eval()
    with torch.no_grad():
        right = [float((head(encoder(x)).argmax(1) == y).float().mean()) for _, _, x, y in tasks]
        dead = float((encoder(tasks[-1][2]).abs().amax(0) == 0).float().mean())
    return 100 * statistics.fmean(right), dead


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", nargs="+", default=list(STREAMS), choices=list(STREAMS))
    parser.add_argument("--variants", nargs="+", default=["default"], choices=list(VARIANTS))
    parser.add_argument("--encoders", nargs="+", default=["norm"], choices=["norm", "plain"])
    parser.add_argument("--features", nargs="+", default=["relu", "signed"], choices=["relu", "signed"])
    parser.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
    parser.add_argument("--lr", type=float, help="learning rate; default: 0.05 for sgd, 0.001 for adam")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor of the first features; below 1: short ones"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--images-per-class", type=int, default=130)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    heads = ("stream", "encoder", "features", "criterion", "accuracy", "difference", "dead", "warned")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for stream in arguments.streams:
        tasks = load(stream, arguments.images_per_class)
        for encoder, features in itertools.product(arguments.encoders, arguments.features):
            alone: dict[int, float] = {}
            for variant in ("none", *arguments.variants):
                accuracies: dict[int, float] = {}
                dead, warned = [], 0
                for seed in range(arguments.seeds):
                    criterion = None
                    if variant != "none":
                        criterion = GPLASC(len(tasks), FEATURES, seed=seed, **VARIANTS[variant])  # type: ignore[arg-type]
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        accuracies[seed], zero = train(
                            tasks,
                            criterion,
                            seed,
                            arguments,
                            signed=features == "signed",
                            norm=encoder == "norm",
                        )
                    dead.append(zero)
                    warned += any("collapsed" in str(warning.message) for warning in caught)
                alone = alone or accuracies
                values = spread(list(accuracies.values()))
                difference = "" if variant == "none" else f"{Difference.of(alone, accuracies)}"
                print(
                    f"| {stream} | {encoder} | {features} | {variant} | {values.mean:.1f} ± {values.std:.1f} | "
                    f"{difference} | {statistics.fmean(dead):.2f} | {warned} of {arguments.seeds} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
