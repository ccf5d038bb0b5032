"""Accuracy of encoders on images held out from CIFAR-10's training images, after the same processor time each.

An encoder is DEPTH:WIDTH:STEM, a residual network with 10 or 18 layers and the stem "cifar" (stride 1) or "fast"
(stride 2): 10:16:fast is the encoder "resnet10-fast" with width 16.

python benchmarks/encoders.py --data-dir DIR [--seconds 90] [--encoders 10:16:fast ...]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from typing import cast

import torch
from torch import nn

from gplasc.models._initialize import initialize
from gplasc.models.resnet import ResNet, Stem
from gplasc.streams import open_stream
from gplasc.streams.augment import Plain, Replay

ENCODERS = (
    "10:16:fast",
    "10:24:fast",
    "18:16:fast",
    "18:24:fast",
    "10:8:fast",
    "10:8:cifar",
    "10:16:cifar",
    "18:8:cifar",
)


def measure(
    text: str, *, seconds: float, data_dir: str, batch: int = 128, lr: float = 0.1
) -> dict[str, object]:
    """Train a classifier for the given processor time, cosine schedule, and return speed and accuracy."""
    depth, width, stem = text.split(":")
    stream = open_stream("seq-cifar10", data_dir=data_dir)
    x = torch.cat([task.train.x for task in stream])
    y = torch.cat([task.train.y for task in stream])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, held = order[:-5000], order[-5000:]
    generator = torch.Generator().manual_seed(1)
    encoder = ResNet(width=int(width), stem=cast(Stem, stem), blocks_per_stage=int(depth) // 8)
    initialize(encoder, generator)
    encoder.channels_last_()
    head = nn.Linear(encoder.feature_dim, 10)
    with torch.no_grad():
        head.weight.normal_(0, encoder.feature_dim**-0.5, generator=generator)
        head.bias.zero_()
    model = nn.Sequential(encoder, head).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    augment = Replay(32, stream.mean, stream.std)
    normalize = Plain(stream.mean, stream.std)
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
        predicted = torch.cat([model(normalize(x[part], generator)).argmax(1) for part in held.split(500)])
    accuracy = 100 * (predicted == y[held]).float().mean().item()
    return {"encoder": text, "views_per_second": round(views / seconds), "accuracy": round(accuracy, 2)}


def main() -> None:
    """Print one line for each encoder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS)
    given = parser.parse_args()
    if wrong := [text for text in given.encoders if not re.fullmatch(r"(10|18):[1-9]\d*:(cifar|fast)", text)]:
        parser.error(f"{wrong[0]!r} is no encoder; write 10 or 18:WIDTH:cifar or fast, such as 10:16:fast")
    torch.set_num_threads(1)
    for text in given.encoders:
        measured = measure(text, seconds=given.seconds, data_dir=given.data_dir)
        print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
