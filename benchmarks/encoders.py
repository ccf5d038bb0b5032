"""Accuracy of encoders on images held out from CIFAR-10's training images, after the same processor time each.

python benchmarks/encoders.py --data-dir DIR [--seconds 120] [--encoders resnet18-fast:24 resnet10-fast:16 ...]
"""

from __future__ import annotations

import argparse
import json
import math
import time

import torch
from torch import nn

from gplasc.models import build_encoder
from gplasc.streams import open_stream
from gplasc.streams.augment import plain, replay

ENCODERS = (
    "resnet18:16",
    "resnet18-fast:16",
    "resnet18-fast:24",
    "resnet10-fast:16",
    "resnet10-fast:24",
    "resnet10-fast:32",
)


def measure(
    name: str, width: int, seconds: float, data_dir: str, batch: int = 128, lr: float = 0.1
) -> dict[str, object]:
    """Train a classifier for the given processor time, cosine schedule, and return speed and accuracy."""
    stream = open_stream("seq-cifar10", data_dir=data_dir)
    x = torch.cat([task.train.x for task in stream])
    y = torch.cat([task.train.y for task in stream])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, held = order[:-5000], order[-5000:]
    generator = torch.Generator().manual_seed(1)
    encoder = build_encoder(name, width=width, generator=generator)
    head = nn.Linear(encoder.feature_dim, 10)
    with torch.no_grad():
        head.weight.normal_(0, encoder.feature_dim**-0.5, generator=generator)
        head.bias.zero_()
    model = nn.Sequential(encoder, head).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    augment = replay(32, stream.mean, stream.std)
    normalize = plain(stream.mean, stream.std)
    start, views = time.process_time(), 0
    while (share := (time.process_time() - start) / seconds) < 1:
        rows = train[torch.randint(len(train), (batch,), generator=generator)]
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 + math.cos(math.pi * share)) / 2
        loss = nn.functional.cross_entropy(model(augment(x[rows], generator)), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        views += batch
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(normalize(x[part], generator)).argmax(1) for part in held.split(500)])
    accuracy = 100 * (found == y[held]).float().mean().item()
    return {
        "encoder": name,
        "width": width,
        "views_per_second": round(views / seconds),
        "accuracy": round(accuracy, 2),
    }


def main() -> None:
    """Print one line for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for text in arguments.encoders:
        name, _, width = text.partition(":")
        print(json.dumps(measure(name, int(width), arguments.seconds, arguments.data_dir)), flush=True)


if __name__ == "__main__":
    main()
