"""Predictions that change if a frozen encoder computes in bfloat16, and the time that it saves.

Ten training images of each class give the mean direction of its features, and the nearest mean predicts ten others.

python benchmarks/frozen.py --data-dir DIR
"""

import argparse

import torch
from benchmarks.speed.clock import seconds
from torch import Tensor
from torch.nn import functional as F

from gplasc.models import Encoder, as_encoder
from gplasc.streams import Samples, open_stream

_IMAGES = 10  # of each class, to train and to predict


def _features(encoder: Encoder, samples: Samples, *, low: bool) -> tuple[Tensor, Tensor, float]:
    """Return unit features and labels of some samples of each class, and the processor time."""
    y = samples.y
    rows = torch.cat([(y == label).nonzero().flatten()[:_IMAGES] for label in y.unique()])
    pieces: list[Tensor] = []
    spent = 0.0
    for batch in samples.take(rows).x.split(64):
        x = F.interpolate(batch / 255, size=encoder.image_size or batch.shape[-1], mode="bilinear")
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=low):
            spent += seconds(lambda x=x: pieces.append(encoder(x).float()))
    return F.normalize(torch.cat(pieces)), y[rows], spent


def main() -> None:
    """Print a line for each stream."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    encoder = as_encoder("gplasc.models.pretrained:efficientnet_lite0")
    encoder.freeze()
    for name in ("cub200", "seq-cifar100"):
        tasks = list(open_stream(name, data_dir=given.data_dir, image_size=64 if name == "cub200" else None))
        predicted, right, times = [], [], []
        for low in (False, True):
            train, test = (
                [_features(encoder, getattr(task, split), low=low) for task in tasks]
                for split in ("train", "test")
            )
            means = [z[y == label].mean(0) for z, y, _ in train for label in y.unique()]
            scores = torch.cat([z for z, _, _ in test]) @ F.normalize(torch.stack(means)).T
            predicted.append(scores.argmax(1))
            right.append(100 * (predicted[-1] == torch.cat([y for _, y, _ in test])).float().mean().item())
            times.append(sum(spent for _, _, spent in (*train, *test)))
        print(
            f"{name}: {(predicted[0] != predicted[1]).sum()} of {len(predicted[0])} predictions change; "
            f"accuracy {right[0]:.1f} in float32, {right[1]:.1f} in bfloat16; time {times[0] / times[1]:.2f} to 1",
            flush=True,
        )


if __name__ == "__main__":
    main()
