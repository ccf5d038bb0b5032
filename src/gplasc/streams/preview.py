"""A picture of a stream: sample images of each task, as they are and as the contrastive methods see them."""

from pathlib import Path

import torch
from torch import Tensor

from gplasc._io.files import atomic_path
from gplasc.errors import UserError
from gplasc.streams.augment import Contrastive, Replay
from gplasc.streams.stream import Stream, Task

_ROWS = ("original", "view 1, contrastive", "view 2", "crop and flip, replay")


def draw_preview(stream: Stream, path: Path, *, tasks: int = 5, images: int = 3) -> Path:
    """Draw images of the first tasks into a PNG file: the original, two views, crop and flip, one below the other."""
    from matplotlib.figure import Figure

    if path.suffix.lower() != ".png":
        raise UserError(f"{path} does not end in .png; the picture is a PNG file")
    generator = torch.Generator().manual_seed(0)
    shown = stream[:tasks]
    widths = [images + 1.7, *[images + 0.2] * (len(shown) - 1)]  # the first with the names of the rows
    figure = Figure(figsize=(sum(widths), 0.6 + len(_ROWS)), layout="constrained")
    parts = figure.subfigures(1, len(shown), squeeze=False, width_ratios=widths)[0]
    for task, part in zip(shown, parts, strict=True):
        part.suptitle(f"task {task.index + 1}: {len(task.classes)} classes", fontsize=10)
        samples = task.train.take(_choose(task, images))
        axes = part.subplots(len(_ROWS), images, squeeze=False)
        for row, (text, batch) in enumerate(zip(_ROWS, _rows(stream, samples.x, generator), strict=True)):
            for axis, image in zip(axes[row], batch.permute(0, 2, 3, 1).numpy(), strict=True):
                axis.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axis.set(xticks=[], yticks=[])
            if not task.index:
                axes[row][0].set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)
        for axis, label in zip(axes[-1], samples.y.tolist(), strict=True):
            axis.set_xlabel(stream.class_names[label][:11].replace("$", r"\$"), fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=100)
    return path


def _choose(task: Task, count: int) -> Tensor:
    """Return the rows of one image of each class, then of one more image of the first ones."""
    rows = [(task.train.y == label).nonzero().flatten() for label in task.classes]
    return torch.stack([rows[i % len(rows)][i // len(rows)] for i in range(count)])


def _rows(stream: Stream, x: Tensor, generator: torch.Generator) -> list[Tensor]:
    """uint8 (N, C, H, W) -> four float batches in 0..1: original, first view, second view, crop and flip."""
    size = stream.image_shape[1]
    augmented = Contrastive(size, stream.mean, stream.std)(x, generator, views=2)
    cropped = Replay(size, stream.mean, stream.std, padding=size // 8)(x, generator)
    mean, std = torch.tensor((stream.mean, stream.std))[:, None, :, None, None]
    seen = [(batch * std + mean).clamp(0, 1) for batch in (*augmented.chunk(2), cropped)]
    return [x.float() / 255, *seen]
